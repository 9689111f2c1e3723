"""The steps of a recurrent highway layer, forward and back: left to autograd, with the backward pass of our own, and
compiled by torch.

python -m benchmarks speed highway                          # width 200, depth 5, and the paper's 830 and 10
python -m benchmarks speed highway --sizes 200x5 --compile  # torch.compile too, which takes minutes first

Seconds are of the processor, not of the clock, so that what else runs counts less; one thread.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import DOCS, RESULTS, put, table, write
from leanrnn.layers.highway_steps import plain_steps, quick_steps

RESULT = RESULTS / "rhn_step.json"


def inputs(width: int, depth: int, steps: int, batch: int) -> tuple[Any, ...]:
    """What the input adds, a state, a mask, weights and biases."""
    torch.manual_seed(0)
    x, s = torch.randn(steps, batch, 2 * width, requires_grad=True), torch.zeros(batch, width, requires_grad=True)
    mask = (torch.rand(batch, width) < 0.75).float() / 0.75
    weights = [(torch.randn(2 * width, width) * width**-0.5).requires_grad_() for _ in range(depth)]
    return x, s, mask, weights, [torch.zeros(2 * width, requires_grad=True) for _ in range(depth - 1)]


def seconds(run: Callable[..., Tensor], given: tuple[Any, ...], rounds: int) -> tuple[float, float]:
    """Of the way there and of the way back, the medians."""
    leaves, found = [*given[:2], *given[3], *given[4]], []
    for _ in range(rounds + 1):  # the first one warms up
        start = time.process_time()
        output = run(*given)
        middle = time.process_time()
        torch.autograd.grad(output.sum(), leaves)
        found.append((middle - start, time.process_time() - middle))
    there, back = zip(*found[1:], strict=True)
    return statistics.median(there), statistics.median(back)


def page(rows: list[dict[str, Any]]) -> str:
    """The table of docs/reproduce.md."""
    return table(
        ["width, depth", "steps", "forward", "backward", "both"],
        [
            [f"{row['width']}, {row['depth']}", row["way"], *(f"{1e3 * each:.1f} ms" for each in times)]
            for row in rows
            for times in [(row["forward"], row["backward"], row["forward"] + row["backward"])]
        ],
    )


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write down, and put the table into the page."""
    parser.add_argument("--sizes", nargs="+", default=["200x5", "830x10"], help="width x depth")
    parser.add_argument("--steps", type=int, default=35)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    ways: dict[str, Callable[..., Tensor]] = {"autograd": plain_steps, "own": quick_steps}
    if options.compile:
        ways["torch.compile"] = torch.compile(plain_steps)
    rows = []
    for size in options.sizes:
        width, depth = map(int, size.split("x"))
        for name, run in ways.items():
            there, back = seconds(run, inputs(width, depth, options.steps, options.batch), options.rounds)
            rows.append({"width": width, "depth": depth, "way": name, "forward": there, "backward": back})
            print(f"{size:>8} {name:<14} forward {there:.4f} s, backward {back:.4f} s", flush=True)
    write(options.out, {"measured": rows})
    if options.out == RESULT:  # the page shows what results/ has, nothing else
        put({DOCS / "reproduce.md": page(rows)}, "rhn-step")
