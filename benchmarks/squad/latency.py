"""Time of one question, of the runs of `squad train` that have ended, and how much of it goes into LSTMs. ::

    python -m benchmarks squad latency              # all of them; nothing else running
    python -m benchmarks squad latency dense lean   # those

The text has as many tokens as those of the development set have in the mean; one thread.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import torch

import leanrnn
from benchmarks.common import environment, printed
from benchmarks.squad.runs import RUNS, RUNTIMES, asked, ended, write_down, write_page, written_down
from leanrnn.lab.squad.job import example, load, vocabulary_of

LENGTH = 146
"""Mean number of tokens of a text of the development set."""


def speed(folder: Path) -> dict[str, Any]:
    """Of one question, and how much of it goes into LSTMs."""
    share = lstm_share(folder / "model.safetensors")
    return {"latency": latency(folder), "lstm_share": share, "latency_environment": environment()}


def lstm_share(path: Path, repeats: int = 20) -> float:
    """Part of torch's time for one question that is spent in the kernels of the LSTMs."""
    model, inputs = load(path).eval(), example(vocabulary_of(leanrnn.about(path)), 1, LENGTH, 11)
    torch.set_num_threads(1)
    with torch.no_grad():
        model(*inputs)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(repeats):
                model(*inputs)
    spent = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return sum(time for name, time in spent.items() if "mkldnn_rnn" in name) / sum(spent.values())


def latency(folder: Path) -> dict[str, float]:
    """Milliseconds of one question about a text of the mean length of the development set, by runtime."""
    words = f"--batch 1 --steps {LENGTH} --threads 1 --seconds 10 --runtimes".split()
    found = printed("measure", str(folder), *words, *RUNTIMES)
    return {row["runtime"]: row["milliseconds"] for row in found["measured"]}


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write down, and write the page again."""
    for name in asked(parser, words, ended()).runs:
        write_down(name, written_down()[name] | speed(RUNS / f"squad-{name}"))
    write_page()
