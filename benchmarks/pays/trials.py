"""Other courses than leanrnn's own: what changes if one of its choices is made in another way.

python -m benchmarks pays trials run    # what is missing, of the cells that are hardest; minutes each
python -m benchmarks pays trials        # the table of docs/trials.md
"""

from __future__ import annotations

import statistics
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

import leanrnn
from benchmarks.common import DOCS, between_marks, table
from benchmarks.pays.cases import CASES, Case, text_of
from benchmarks.pays.grid import SEEDS, chosen, final
from benchmarks.pays.methods import Gradual
from benchmarks.pays.records import Record, Store
from benchmarks.pays.run import HARDEST, record_of
from benchmarks.pays.train import Task, Trained, train
from leanrnn.lab.language.model import LanguageModel, State

__all__ = ["TRIALS", "Trial", "main", "run", "text"]

PAGE, OURS = DOCS / "trials.md", "ours"


@dataclass(frozen=True)
class Trial:
    """One choice made in another way."""

    title: str
    course: leanrnn.Course | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model or its training that are others than those of the case."""
    follows: bool = False
    """Whether dropout falls with the widths."""


TRIALS = {
    OURS: Trial("the default"),
    "norm": Trial("chosen by norm instead of saliency, evenly", leanrnn.Course(by="norm")),
    "early": Trial("half of the warm-up", leanrnn.Course(warm_up=0.1)),
    "late": Trial("twice the warm-up", leanrnn.Course(warm_up=0.4)),
    "fast": Trial("shrinks in half of the time", leanrnn.Course(shrink=0.15)),
    "slow": Trial("shrinks for half of the training", leanrnn.Course(shrink=0.5)),
    "once": Trial("in one round", leanrnn.Course(rounds=1)),
    "five": Trial("in 5 rounds", leanrnn.Course(rounds=5)),
    "line": Trial("as many go at the end as at the beginning", leanrnn.Course(power=1)),
    "wide": Trial("begun 1.5 times wider", config={"widths": (300, 300)}),
    "follow": Trial("dropout falls with the root of the widths", follows=True),
}
"""By their short names."""


class _Course(Gradual):
    """As ours is, but for what is tried."""

    def __init__(self, task: Task, trial: Trial) -> None:
        super().__init__(task, trial.course)
        self.trial, self.widths = trial, task.case.config.widths

    def attach(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """With the model at hand, since its dropout may change."""
        self.model = model
        super().attach(model, optimizer)

    def after_step(self, state: State) -> State:
        """Dropout falls as components go."""
        if self.trial.follows:
            self.model.scale_dropout(self.task.settings.keep, self.widths)
        return super().after_step(state)


def run(store: Store, case: Case, name: str, seed: int) -> Record | None:
    """One course, with the learning rate and the dropout that ours was tuned to; None as long as it was not."""
    tuned, trial = chosen(store.of(case.name), OURS), TRIALS[name]
    if tuned is None:
        return None
    # The budget is that of the case, whatever the model begins with.
    begins = replace(case, config=replace(case.config, **trial.config))
    budgeted = replace(begins, times=begins.mult_adds(begins.config.widths) / case.most)
    task = Task(budgeted, tuned.settings._replace(seed=seed), text_of(case.config))
    trained = train(task, _Course(task, trial), Trained(budgeted.model(task.settings)))
    record = record_of(task, name, trained)
    store.add(_file(case), record)
    return record


def _file(case: Case) -> str:
    return f"trials-{case.name}"


def _done(store: Store, case: Case, name: str) -> list[Record]:
    if name == OURS:
        return final(store.of(case.name), name)
    return [record for record in store.of(_file(case)) if record.arm == name]


def text(store: Store, cases: Sequence[str] = HARDEST) -> str:
    """A row for every course: perplexity of the validation text, and how much worse than the default with the same
    seeds."""
    rows = []
    for name, trial in TRIALS.items():
        cells = [_cell(store, CASES[case], name) for case in cases]
        if any(cells):
            rows.append([trial.title, *(cell or "-" for cell in cells)])
    return table(["", *(f"{CASES[case].task}, {CASES[case].times} times less" for case in cases)], rows)


def _cell(store: Store, case: Case, name: str) -> str:
    done = {r.seed: r.valid[-1] for r in _done(store, case, name)}
    default = {r.seed: r.valid[-1] for r in _done(store, case, OURS)}
    if not done:
        return ""
    seeds = f" ({len(done)} seed{'s' * (len(done) > 1)})" if len(done) < len(SEEDS) else ""
    by = [done[seed] / default[seed] - 1 for seed in done if seed in default]
    worse = f", {statistics.mean(by):+.1%}" if by and name != OURS else ""
    return f"{statistics.mean(done.values()):.2f}{worse}{seeds}"


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Run what is missing, or write the page."""
    parser.add_argument("what", nargs="?", choices=["run"])
    parser.add_argument("--case", choices=HARDEST, action="append", default=[])
    parser.add_argument("--seed", type=int, choices=SEEDS, action="append", default=[])
    options = parser.parse_args(words)
    store = Store()
    if options.what is None:
        PAGE.write_text(between_marks(PAGE.read_text(), text(store), "written"))
        return
    torch.set_num_threads(1)
    for seed in options.seed or SEEDS:
        for case in options.case or HARDEST:
            for name in TRIALS:
                if name != OURS and not any(record.seed == seed for record in _done(store, CASES[case], name)):
                    record = run(store, CASES[case], name, seed)
                    print(f"{case} {name}: {record or 'waits for ours'}", flush=True)
