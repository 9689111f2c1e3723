"""What `discover` and `shrink` cost in time and memory, and how the cost grows.

python -m benchmarks cost discover                    # the paper's sizes; some minutes, nothing else running
python -m benchmarks cost discover --models ptb-64 rhn-32 --vocabulary 500 --widths 64 128 256 --steps 4 8 16

Every measurement has a fresh process to itself, in which a tiny model ran before. Memory is the peak of the process
less what it held before, in multiples of the model's own bytes. The exponents are slopes of time against the sum of all
axis lengths, operators being fixed, and against the number of operators, widths being fixed. Growing widths are
measured on the meta device, where the model's own products cost nothing.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import RESULTS, ROOT, write

TASKS = ("discover without proof", "discover", "discover and shrink")


class Stack(nn.Module):
    """Embedding, two LSTM layers, softmax layer: the paper's model for Penn Treebank."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.rnn = nn.LSTM(width, width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every step."""
        return self.head(self.rnn(self.embedding(tokens))[0])


class Highway(nn.Module):
    """A Recurrent Highway Network of depth 10 with tied embedding."""

    def __init__(self, vocabulary: int, width: int, depth: int = 10) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        sizes = [2 * width] + [width] * (depth - 1)
        self.h = nn.ModuleList([nn.Linear(n, width) for n in sizes])
        self.t = nn.ModuleList([nn.Linear(n, width) for n in sizes])

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every step."""
        x, outs = self.embedding(tokens), []
        s = torch.zeros_like(x[0])
        for step in x:
            for i, (h, t) in enumerate(zip(self.h, self.t, strict=True)):
                a = torch.cat([step, s], 1) if i == 0 else s
                s = (torch.tanh(h(a)) - s) * torch.sigmoid(t(a)) + s
            outs.append(s)
        return torch.stack(outs) @ self.embedding.weight.t()


def build(name: str, vocabulary: int) -> nn.Module:
    """``ptb-650`` or ``rhn-830``."""
    kind, _, width = name.partition("-")
    return (Stack if kind == "ptb" else Highway)(vocabulary, int(width))


def work(task: str, model: nn.Module, tokens: Tensor) -> None:
    """What is measured."""
    from leanrnn import discover, shrink

    groups = discover(model, tokens, prove=task != TASKS[0])
    if task == TASKS[2]:
        shrink(model, groups, ratio=0.5)


def measure(task: str, name: str, vocabulary: int, length: int, meta: bool) -> dict[str, Any]:
    """Time and peak memory of one task; runs in a process of its own."""
    work(task, build("ptb-4", 8), torch.zeros(2, 2, dtype=torch.long))
    with torch.device("meta" if meta else "cpu"):
        model, tokens = build(name, vocabulary), torch.zeros(length, 2, dtype=torch.long)
    before = _memory("VmRSS", reset=True)
    start = time.perf_counter()
    work(task, model, tokens)
    seconds = time.perf_counter() - start
    extra, size = _memory("VmHWM") - before, sum(p.nbytes for p in model.parameters())
    axes = sum(sum(p.shape) for p in model.parameters())
    result = {"model": name, "task": task, "length": length, "seconds": seconds, "axes": axes}
    result["operators"] = _operators(model, tokens)
    return result if meta else result | {"extra_bytes": extra, "ratio": extra / size}


def _memory(field: str, reset: bool = False) -> int:
    """Bytes the process holds now (VmRSS) or held at most since the last reset (VmHWM)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024


def _operators(model: nn.Module, tokens: Tensor) -> int:
    from leanrnn.discovery.recorder import record
    from leanrnn.running import leaves

    return len(record(lambda: model(tokens), {}, [tokens], leaves)[0].nodes)


def fresh(task: str, name: str, vocabulary: int, length: int, meta: bool = False) -> dict[str, Any]:
    """:func:`measure` in a new process."""
    asked = json.dumps([task, name, vocabulary, length, meta])
    command = [sys.executable, "-m", "benchmarks", "cost", "discover", "--one", asked]
    result = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(result.stdout.splitlines()[-1]))


def growth(name: str, cases: Sequence[Any], key: str, run: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Times of growing cases, and the slope of log time over log size by least squares."""
    found = []
    for case in cases:
        found.append(run(case))
        print(f"{name}: {key} {found[-1][key]}, {found[-1]['seconds']:.2f} s", flush=True)
    points = [(math.log(f[key]), math.log(f["seconds"])) for f in found]
    mean = [sum(p[i] for p in points) / len(points) for i in (0, 1)]
    slope = sum((a - mean[0]) * (b - mean[1]) for a, b in points) / sum((a - mean[0]) ** 2 for a, _ in points)
    print(f"{name}: time grows with {key} to the power of {slope:.2f}", flush=True)
    return {"exponent": slope, "cases": found}


def main(parser: ArgumentParser, words: list[str]) -> None:
    """All measurements, one after the other."""
    parser.add_argument("--models", nargs="+", default=["ptb-200", "ptb-650", "ptb-1500", "rhn-830"])
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--length", type=int, default=10, help="time steps of the example")
    parser.add_argument("--widths", nargs="+", type=int, default=[4000, 8000, 16000, 32000, 64000])
    parser.add_argument("--steps", nargs="+", type=int, default=[25, 50, 100, 200, 400])
    parser.add_argument("--out", type=Path, default=RESULTS / "discover_cost.json")
    parser.add_argument("--one", help=SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    costs = []
    for name in options.models:
        for task in TASKS:
            costs.append(fresh(task, name, options.vocabulary, options.length))
            print("{model}: {task}: {seconds:.2f} s, {ratio:.2f} x the model's bytes".format(**costs[-1]), flush=True)
    plain = TASKS[0]
    widths = growth("widths", options.widths, "axes", lambda n: fresh(plain, f"ptb-{n}", 100, 4, True))
    steps = growth("steps", options.steps, "operators", lambda n: fresh(plain, "ptb-64", 100, n))
    write(options.out, {"costs": costs, "growth_with_widths": widths, "growth_with_operators": steps})
