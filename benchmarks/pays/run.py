"""Does what is missing of the scoreboard, the most important first; what is there is never run again.

python -m benchmarks pays run                           # all of it, days on one core
python -m benchmarks pays run --case gru-4 --arm ours   # of one case, or one arm
python -m benchmarks pays run --hours 2                 # begins no run that would end later
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser
from collections.abc import Iterator

import torch

import leanrnn
from benchmarks.pays.arms import ARMS, Waits, save
from benchmarks.pays.cases import CASES, Case, Settings, text_of
from benchmarks.pays.grid import SEEDS, chosen, missing
from benchmarks.pays.records import Record, Store
from benchmarks.pays.train import Task, Trained
from leanrnn.lab.language.model import detached, load_language_model
from leanrnn.lab.language.perplexity import perplexity
from leanrnn.lab.language.text import windows

FIRST = ("uniform", "uniform taught", "norm", "saliency")
ORDER: tuple[tuple[tuple[str, ...], tuple[str, ...], bool], ...] = (
    (("lstm-1",), ("dense",), False),
    (("gru-4", "rnn-4"), ("uniform",), False),
)
"""Cases, arms, and whether all seeds; the most important first."""


def wanted(store: Store, cases: list[str], arms: list[str], seed: int | None) -> Iterator[tuple[Case, str, Settings]]:
    """All that is to run next, in order."""
    for in_order, arms_in_order, seeds in ORDER:
        for name in in_order:
            for arm in arms_in_order:
                setting = missing(store.of(name), arm, seeds)
                if setting and name in cases and arm in arms and seed in (None, setting.seed):
                    yield CASES[name], arm, setting


def run(store: Store, case: Case, arm: str, settings: Settings) -> Record:
    """One run, written down."""
    print(f"{case.name} {arm} {settings}", flush=True)
    task = Task(case, settings, text_of(case.config), taught(store, case) if ARMS[arm].taught else ())
    trained = ARMS[arm].run(task, store, 0.0)
    save(store.file, task, arm, trained)
    record = record_of(task, arm, trained)
    store.add(case.name, record)
    return record


def record_of(task: Task, arm: str, trained: Trained) -> Record:
    """The numbers of a run."""
    widths, case = trained.model.widths, task.case
    valid = [round(value, 3) if math.isfinite(value) else 1e6 for value in trained.valid]
    return Record(
        arm, *task.settings, valid=valid, widths=list(widths), mult_adds=case.mult_adds(widths),
        weights=case.weights(widths), seconds=round(trained.seconds, 1),
    )  # fmt: skip


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Until nothing is missing or the time is over."""
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--arm", choices=ARMS, action="append")
    parser.add_argument("--seed", type=int, choices=SEEDS)
    parser.add_argument("--hours", type=float, default=math.inf)
    parser.add_argument("--runs", type=int, default=10**6, help="how many at most")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    store, longest, begun = Store(), 0.0, time.monotonic()
    for _ in range(options.runs):
        began = time.monotonic()
        if began - begun + longest > options.hours * 3600 or not _one(store, options):
            break
        longest = max(longest, time.monotonic() - began)


def _one(store: Store, options: object) -> bool:
    cases, arms = getattr(options, "case") or list(CASES), getattr(options, "arm") or list(ARMS)
    for case, arm, settings in wanted(store, cases, arms, getattr(options, "seed")):
        with store.claim("run", case.name, arm, *settings) as mine:
            if not mine:
                continue
            try:
                record = run(store, case, arm, settings)
            except Waits as what:
                print(f"{case.name} {arm} waits for {what}", flush=True)
                continue
            print(f"{case.name} {arm} rate {settings.rate} keep {settings.keep} seed {settings.seed}: "
                  f"valid {record.valid[-1]:.2f}, widths {record.widths}, {record.mult_adds / 1e3:.0f} k mult-adds, "
                  f"{record.seconds:.0f} s", flush=True)
            return True
    return False
