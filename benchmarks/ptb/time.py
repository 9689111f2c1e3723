"""Training time of the runs of `ptb train`, as a ratio to the dense run, on a machine that does nothing else.

python -m benchmarks ptb time small     # all runs of results/ptb_small.json; half an hour, nothing beside it
python -m benchmarks ptb time medium lean --near 0.2 --steps 15     # a wide model, in fewer parts

The runs themselves take hours and share the machine, so their own seconds say little. Here the real loop does some
steps at the widths a run went through (with the penalty where it had one), in turns with the dense model; the ratios,
weighted with the steps the run spent there, are the run's. Validation and what goes before the first step are
left out.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import environment
from benchmarks.ptb.runs import SIZES, dense_of, mult_adds, results, write_page
from leanrnn.environment import hold_memory
from leanrnn.lab import Config
from leanrnn.lab.events import Interval
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.text import Text
from leanrnn.lab.runs import Run

ROUNDS = 5
WORDS, TRAINING = 10_000, 929_589  # of Penn Treebank: different ones, and those of the training text


def text(config: Config, steps: int) -> Text:
    """Random words, enough for so many steps."""
    words = torch.randint(WORDS, (config.batch * (steps * config.window + 1),))
    rest = words[: config.batch * (config.window + 1)]
    return Text(words, rest, rest, tuple(map(str, range(WORDS))))


def seconds(config: Config, steps: int) -> float:
    """Of a step of the loop; the median of tenths, the first two of which warm up."""
    with tempfile.TemporaryDirectory() as folder, Run.open(Path(folder) / "run", {"config": config.to_json()}) as run:
        events = [event for event in train(config, text(config, steps), run) if isinstance(event, Interval)]
    rate = statistics.median(event.tokens_per_second for event in events[2:])
    return config.batch * config.window / rate


def at(config: Config, sizes: list[int], penalised: bool) -> Config:
    """The run as it was at these sizes, for one short epoch in which nothing leaves."""
    return replace(
        config, embedding=sizes[0], widths=tuple(sizes[1:]), strength=config.strength if penalised else 0.0,
        epochs=1, penalised=0, compact=0, ramp=0.0, keep_widths=(),
    )  # fmt: skip


def stages(course: list[dict[str, Any]], dense: Config, near: float = 0.05) -> list[dict[str, Any]]:
    """The course in fewer parts: sizes whose mult-adds are within a twentieth count as those that lasted longest."""
    found: list[list[dict[str, Any]]] = []
    for part in course:
        first = found[-1][0] if found else None
        alike = first and first["penalised"] == part["penalised"]
        if alike and mult_adds(part["sizes"], dense) > (1 - near) * mult_adds(first["sizes"], dense):
            found[-1].append(part)
        else:
            found.append([part])
    longest = [max(parts, key=lambda part: part["steps"]) for parts in found]
    return [each | {"steps": sum(p["steps"] for p in parts)} for each, parts in zip(longest, found, strict=True)]


def ratio(config: Config, parts: list[dict[str, Any]], dense: Config, dense_steps: int, steps: int) -> float:
    """Time of a run, whose course is given in parts, over that of the dense run."""
    total, dense = 0.0, replace(dense, precision=config.precision)
    for part in parts:
        pair = dense, at(config, part["sizes"], part["penalised"])
        spent = [[seconds(each, steps) for each in pair] for _ in range(ROUNDS)]
        total += part["steps"] * statistics.median(now / before for before, now in spent)
    return total / dense_steps


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure every run that has been written down."""
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("runs", nargs="*", help="names of runs; all if none is given")
    parser.add_argument("--steps", type=int, default=40, help="to time at every size, five times")
    parser.add_argument("--near", type=float, default=0.05, help="difference of mult-adds that counts as none")
    options = parser.parse_args(words)
    hold_memory()
    path = results(options.size)
    known = json.loads(path.read_text())
    dense = replace(dense_of(options.size), epochs=1)
    steps = dense_of(options.size).epochs * ((TRAINING // dense.batch - 1) // dense.window)
    for name in options.runs or [name for name in known["runs"] if name != "dense"]:
        run = known["runs"][name]
        parts = stages(run["course"], dense, options.near)
        run["time"] = ratio(Config.from_json(run["config"]), parts, dense, steps, options.steps)
        print(f"{name:<16} {run['time']:.2f} of the dense run's time", flush=True)
        run["time_environment"] = environment()
        path.write_text(json.dumps(known, indent=1) + "\n")
    write_page(options.size)
