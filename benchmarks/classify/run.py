"""Which way to a smaller classifier is best? Runs what is missing, then writes the table of docs/scoreboard.md.

pip install -r benchmarks/classify/requirements.txt
python -m benchmarks classify                # all runs, half an hour on one core, and the table
python -m benchmarks classify --table        # only the table

Every arm has its own learning rate, chosen with the first seed by the loss on the messages to tune by: by factors of
two, until the best has a worse one on either side. Then three seeds run. The messages to judge by are read for these
alone.
"""

from __future__ import annotations

import statistics
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace

import torch

import leanrnn
from benchmarks.classify.messages import Messages, read
from benchmarks.classify.train import ARMS, WIDTH, Classifier, Task, errors
from benchmarks.common import DOCS, RESULTS, ROOT, put, table
from benchmarks.pays.records import Record, Store

__all__ = ["main", "told"]

CASE, RATE, SEEDS = "classify", 2e-3, (1, 2, 3)


class Board:
    """All runs there are, and those that are missing."""

    def __init__(self, store: Store, data: Messages, epochs: int = Task.epochs) -> None:
        self.store, self.data, self.epochs = store, data, epochs

    def get(self, arm: str, rate: float, seed: int) -> Record:
        """A run; done if it is missing."""
        for record in self.store.of(CASE):
            if (record.arm, record.rate, record.seed) == (arm, rate, seed):
                return record
        task = Task(self.data, rate, seed, epochs=self.epochs)
        if ARMS[arm].taught:
            task = replace(task, teacher=self.dense())
        if arm.startswith("found"):
            ours = self.get("ours", self.tuned("ours"), SEEDS[0])
            task = replace(task, found=dict(zip(("rnn.l0", "rnn.l0_reverse"), ours.widths, strict=True)))
        trained = ARMS[arm].run(task)
        leanrnn.save(trained.model, self.store.file(CASE, arm, rate, seed))
        groups = task.groups(trained.model)
        record = Record(
            arm, rate, keep=0.8, seed=seed, valid=[round(min(trained.valid), 5)], widths=list(groups.widths.values()),
            mult_adds=groups.costs.mult_adds.at(groups.widths), weights=int(groups.costs.weights.at(groups.widths)),
            seconds=round(trained.seconds, 1),
        )  # fmt: skip
        print(record, flush=True)
        self.store.add(CASE, record)
        return record

    def tuned(self, arm: str) -> float:
        """The learning rate of the least loss with the first seed."""
        found = {rate: self.get(arm, rate, SEEDS[0]).valid[-1] for rate in (RATE, 2 * RATE)}
        while (best := min(found, key=lambda rate: found[rate])) in (min(found), max(found)):
            rate = best * 2 if best == max(found) else best / 2
            found[rate] = self.get(arm, rate, SEEDS[0]).valid[-1]
        return best

    def dense(self) -> torch.nn.Module:
        """The teacher: the tuned dense model of the first seed."""
        file = self.store.file(CASE, "dense", self.tuned("dense"), SEEDS[0])
        return leanrnn.load(file, lambda: Classifier(self.data.characters)).eval().requires_grad_(False)

    def judged(self, arm: str, seed: int) -> Record:
        """The run of the chosen rate, with its errors on the messages to judge by."""
        record = self.get(arm, self.tuned(arm), seed)
        if record.test is None:
            uniform = arm.startswith("uniform")  # the only one that was not cut out of a dense model
            width = record.widths[0] if uniform else WIDTH
            file = self.store.file(CASE, arm, record.rate, seed)
            model = leanrnn.load(file, lambda: Classifier(self.data.characters, width))
            record = replace(record, test=errors(model, self.data.test))
            self.store.add(CASE, record)
        return record

    def everything(self) -> None:
        """All arms, all seeds."""
        for seed in SEEDS:
            for arm in ARMS:
                print(self.judged(arm, seed), flush=True)


def told(records: Sequence[Record]) -> str:
    """The table: errors on the messages to judge by, mean and standard deviation of the seeds."""
    rows = []
    for arm, way in ARMS.items():
        runs = [r for r in records if r.arm == arm and r.test is not None]
        if not runs:
            continue
        first = min(runs, key=lambda r: r.seed)
        tests = [100 * r.test for r in runs if r.test is not None]
        error = f"{statistics.mean(tests):.2f} %"
        error += f" ± {statistics.stdev(tests):.2f}" if len(tests) > 1 else " (one seed)"
        valid = statistics.mean(r.valid[-1] for r in runs)
        title = way.title + (", taught" if way.taught else "")
        widths, size = ", ".join(map(str, first.widths)), f"{first.mult_adds / 1e3:.0f} k"
        rows.append([title, error, f"{valid:.4f}", widths, size, f"{first.rate:g}"])
    if not rows:
        return "No run has been done yet."
    return table(["", "errors", "loss, to tune by", "widths, first seed", "mult-adds of two", "rate"], rows)


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Run, then write."""
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    store = Store(RESULTS / "classify", ROOT / "runs" / "classify")
    if not options.table:
        Board(store, read()).everything()
    put({DOCS / "scoreboard.md": told(store.of(CASE))}, CASE)
