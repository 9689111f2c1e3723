"""What a second process gives, measured, and what eight machines would, computed.

python -m benchmarks speed scaling     # three minutes; nothing else running, or the numbers mean nothing

The language model of `ptb-lstm-small`, and the same cut to a quarter of its mult-adds, trained in one process and in
two, one thread each, with gloo. *Weak*: each process has the 20 streams that one has. *Strong*: they share them. Steps
that exchange gradients alternate with steps that do not, so what the exchange takes is their difference.

For eight machines nothing is measured but a step of one process with its share of the streams. What they exchange is
computed: every machine sends and receives 2 * 7/8 of the bytes of all gradients, in 14 messages of 50 microseconds
latency, at 1 or 10 Gbit/s, and nothing else happens meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import leanrnn
from benchmarks.common import DOCS, RESULTS, ROOT, put, spread, table, write
from leanrnn.environment import hold_memory
from leanrnn.lab.language.model import LanguageModel

RESULT = RESULTS / "scaling.json"
STREAMS, WINDOW, MACHINES, LATENCY = 20, 20, 8, 50e-6
LINKS = {"1 Gbit/s": 1e9, "10 Gbit/s": 1e10}
"""Bits a second."""
SHARE = -(-STREAMS // MACHINES)
CASES = (("one", 1, STREAMS), ("weak", 2, STREAMS), ("strong", 2, STREAMS // 2), ("an eighth", 1, SHARE))
"""What is measured: a name, processes, and streams of each."""


def model_of(part: str, words: int) -> LanguageModel:
    """The dense model, or what is left of it."""
    torch.manual_seed(1)
    model = LanguageModel(words, 200, (200, 200))
    if part == "100%":
        return model
    groups = leanrnn.discover(model, torch.zeros(3, 2, dtype=torch.long), scope="all")
    small = leanrnn.shrink(model, groups, budget=leanrnn.Budget(mult_adds=part))
    assert isinstance(small, LanguageModel)
    return small


def steps(part: str, words: int, streams: int, count: int) -> dict[str, Any]:
    """Seconds of training steps in this process, with gradients exchanged and without."""
    hold_memory()
    torch.set_num_threads(1)
    model = model_of(part, words)
    together = dist.is_initialized()
    replica = DistributedDataParallel(model) if together else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    text = torch.randint(words, (WINDOW + 1, streams))
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * count + 4):
        exchanged = number % 2 == 0
        if together:
            dist.barrier()
        began = time.perf_counter()
        with nullcontext() if exchanged or not together else replica.no_sync():
            loss = cross_entropy(replica(text[:-1])[0].flatten(0, 1), text[1:].flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number >= 4:  # the first ones also make buckets, and kernels
            seconds[exchanged].append(time.perf_counter() - began)
    numbers = sum(p.numel() for p in model.parameters())
    return {"together": spread(seconds[True]), "apart": spread(seconds[False]), "bytes": 4 * numbers}


def measured(part: str, options: Any) -> dict[str, Any]:
    """All cases of one model, each in processes of its own."""
    found = {}
    for name, processes, streams in CASES:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "found.json"
            words = ["--part", part, "--streams", streams, "--words", options.words, "--steps", options.steps]
            command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "-m"]
            command += ["benchmarks", "speed", "scaling", *map(str, words), "--out", str(out)]
            subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            found[name] = {"processes": processes, "streams": streams, **json.loads(out.read_text())}
            print(f"{part:>5} {name:<10} {found[name]['together']['median'] * 1e3:8.1f} ms a step", flush=True)
    return found


def exchange(size: float, machines: int, bits: float) -> float:
    """Seconds in which a ring of machines adds up so many bytes."""
    return 2 * (machines - 1) * (size / machines * 8 / bits + LATENCY)


def computed(found: Mapping[str, Any]) -> dict[str, Any]:
    """How many times as many words a second as one machine eight would read."""
    one, eighth, size = found["one"]["apart"]["median"], found["an eighth"]["apart"]["median"], found["one"]["bytes"]
    result = {}
    for link, bits in LINKS.items():
        takes = exchange(size, MACHINES, bits)
        result[link] = {
            "exchange": takes,
            "weak": MACHINES * one / (one + takes),
            "strong": one / (eighth + takes),
        }
    return result


def gain(found: Mapping[str, Any], name: str) -> str:
    """Words a second of two processes, as a multiple of those of one."""
    one, two = found["one"], found[name]
    words = two["processes"] * two["streams"] / one["streams"]
    return f"{words * one['apart']['median'] / two['together']['median']:.2f}"


def page(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Both tables."""
    rows, far = [], []
    for part, each in models.items():
        found, there = each["measured"], each["computed"]
        step = lambda name, found=found: f"{found[name]['together']['median'] * 1e3:.0f} ms"  # noqa: E731
        cells = [step("one"), step("weak"), gain(found, "weak"), step("strong"), gain(found, "strong")]
        rows.append([part, f"{found['one']['bytes'] / 1e6:.1f} MB", *cells])
        for link, numbers in there.items():
            ratios = [f"{numbers[way]:.1f}" for way in ("weak", "strong")]
            far.append([part, link, f"{numbers['exchange'] * 1e3:.0f} ms", *ratios])
    head = ["mult-adds", "gradients", "one process", "two, weak", "words a second", "two, strong", "words a second"]
    title = f"{MACHINES} machines, computed"
    return "\n\n".join([table(head, rows), table([title, "link", "exchange", "weak: words a second", "strong"], far)])


def main(parser: ArgumentParser, words: Sequence[str]) -> None:
    """Measure, compute, write down, and put the tables into the page."""
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--words", type=int, default=10_000, help="of the vocabulary")
    parser.add_argument("--part", help="for one case, under torchrun: what is left of the mult-adds")
    parser.add_argument("--streams", type=int, default=STREAMS, help="for one case")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(words)
    if options.part:
        case(options)
        return
    models = {}
    for part in ("100%", "25%"):
        found = measured(part, options)
        models[part] = {"measured": found, "computed": computed(found)}
    write(options.out, {"streams": STREAMS, "window": WINDOW, "models": models})
    print(page(models))
    if options.out == RESULT:  # the page shows what results/ has, nothing else
        put({DOCS / "many-processes.md": page(models)}, "scaling")


def case(options: Any) -> None:
    """One process of one case; the first writes what it found."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        dist.init_process_group("gloo")
    found = steps(options.part, options.words, options.streams, options.steps)
    if not several or dist.get_rank() == 0:
        options.out.write_text(json.dumps(found))
    if several:
        dist.barrier()
        dist.destroy_process_group()
