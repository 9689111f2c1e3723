"""One recurrent layer, forward and back: by torch's operator and by our steps, in turns.

python -m benchmarks speed recurrent                                       # widths 68, 200, 650 and 1500
python -m benchmarks speed recurrent --widths 1500 --cells lstm --threads 2

With one thread, seconds are of the processor, not of the clock, so that what else runs counts less.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import DOCS, RESULTS, put, table, write
from leanrnn.environment import hold_memory
from leanrnn.layers.faster import faster
from leanrnn.layers.recurrent_steps import quick_steps

RESULT = RESULTS / "recurrent_step.json"
CELLS: dict[str, type[nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def measure(cell: str, width: int, precision: str, options: Any) -> dict[str, Any]:
    """Milliseconds of both ways, forward and back, medians; and whether ours is the one that training takes."""
    torch.manual_seed(0)
    module, half = CELLS[cell](width, width), precision == "bfloat16"
    x = torch.randn(options.steps, options.batch, width, requires_grad=True)
    state = [torch.zeros(1, options.batch, width) for _ in range(2 if cell == "lstm" else 1)]
    weights = list(module.parameters())

    def torchs() -> Tensor:
        output: Tensor = module(x, tuple(state) if cell == "lstm" else state[0])[0]
        return output

    def ours() -> Tensor:
        return quick_steps(module.mode, x, state, weights, half)[0]

    found: dict[str, list[Sequence[float]]] = {"torch": [], "ours": []}
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        taken = faster(module.mode, x, state, weights, True)
        for _ in range(options.rounds + 2):  # the first two warm up
            for name, way in (("torch", torchs), ("ours", ours)):
                found[name].append(seconds(way, [x, *weights]))
    times = {
        name: [1e3 * statistics.median(each) for each in zip(*rounds[2:], strict=True)]
        for name, rounds in found.items()
    }
    return {"cell": cell, "width": width, "precision": precision, "taken": taken, **times}


def seconds(way: Callable[[], Tensor], leaves: list[Tensor]) -> tuple[float, float, float]:
    """Forward, back, and both."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    output = way()
    middle = clock()
    with torch.autocast("cpu", enabled=False):
        torch.autograd.grad(output.float().square().sum(), leaves)
    end = clock()
    return middle - start, end - middle, end - start


def page(rows: list[dict[str, Any]]) -> str:
    """The table of docs/reproduce.md."""
    lines = []
    for row in rows:
        (*torchs, all_of_torch), (*ours, all_of_ours) = row["torch"], row["ours"]
        shown = [" + ".join(f"{each:.1f}" for each in way) + " ms" for way in (torchs, ours)]
        ratio, taken = f"{all_of_torch / all_of_ours:.2f}", "ours" if row["taken"] else "torch"
        lines.append([row["cell"], str(row["width"]), row["precision"], *shown, ratio, taken])
    return table(["cell", "width", "products", "torch", "ours", "times faster", "taken"], lines)


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write down, and put the table into the page."""
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--widths", nargs="+", type=int, default=[68, 200, 650, 1500])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--steps", type=int, default=35)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(words)
    torch.set_num_threads(options.threads)
    hold_memory()  # as training does
    rows = []
    for cell in options.cells:
        for precision in options.precisions:
            for width in options.widths:
                rows.append(measure(cell, width, precision, options))
                print(page(rows).splitlines()[-1], flush=True)
    write(options.out, {"steps": options.steps, "batch": options.batch, "measured": rows})
    if options.out == RESULT:  # the page shows what results/ has, nothing else
        put({DOCS / "reproduce.md": page(rows)}, "recurrent-step")
