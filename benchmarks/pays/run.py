"""Does what is missing of the scoreboard, the most important first; what is there is never run again.

python -m benchmarks pays run                           # all of it, days on one core
python -m benchmarks pays run --case gru-4 --arm ours   # of one case, or one arm
python -m benchmarks pays run --hours 2                 # begins no run that would probably end later
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

import leanrnn
from benchmarks.pays.arms import ARMS, Waits, save
from benchmarks.pays.cases import CASES, Case, Settings, text_of
from benchmarks.pays.grid import SEEDS, best_so_far, chosen, final, missing
from benchmarks.pays.records import Record, Store
from benchmarks.pays.strengths import NEAR, TRIES, next_strength
from benchmarks.pays.train import Task, Trained
from leanrnn.lab.language.model import LanguageModel, State, detached, load_language_model
from leanrnn.lab.language.perplexity import perplexity
from leanrnn.lab.language.text import windows

HARDEST, OTHERS = ("gru-4", "rnn-4"), ("lstm-4", "lstm-2", "gru-2", "rnn-2", "lstm-8")
MATTER = ("uniform", "saliency", "norm", "refit", "ours", "found")
TAUGHT = ("uniform taught", "ours taught", "found taught")
REST = ("uniform longer", "found longer", "gradual", "gates", "lean", "paper")
DENSE = ("lstm-1", "gru-1", "rnn-1")
ORDER: tuple[tuple[Sequence[str], Sequence[str], bool], ...] = (
    (HARDEST, MATTER, False),
    (DENSE[:1], ("dense",), False),
    (HARDEST, TAUGHT, False),
    (DENSE, ("dense",), False),
    (HARDEST, (*MATTER, *TAUGHT), True),
    (HARDEST, REST, False),
    (OTHERS, (*MATTER, *TAUGHT), False),
    (DENSE, ("dense",), True),
    (OTHERS, (*MATTER, *TAUGHT), True),
    ((*HARDEST, *OTHERS), REST, True),
    ((*HARDEST, *OTHERS), tuple(name for name, arm in ARMS.items() if arm.taught), True),
)
"""Cases, arms, and whether with all seeds; the most important first."""
TOP = 50  # classes of the teacher that are kept


def wanted(
    store: Store, cases: Sequence[str], arms: Sequence[str], seeds: Sequence[int]
) -> Iterator[tuple[Case, str, Settings]]:
    """What is to run next of every case and arm, in order."""
    for names, chosen_arms, all_seeds in ORDER:
        for arm in chosen_arms:
            for name in names:
                settings = missing(store.of(name), arm, all_seeds, CASES[name].rate)
                if settings and name in cases and arm in arms and settings.seed in seeds:
                    yield CASES[name], arm, settings


def run(store: Store, case: Case, arm: str, settings: Settings) -> Record:
    """One run, written down; of an arm with a strength one try."""
    way = ARMS[arm]
    targets = taught(store, case) if way.taught else ()
    tuning = settings.seed == SEEDS[0] and not way.strength
    best = best_so_far(store.of(case.name), arm) if tuning else ()
    task = Task(case, settings, text_of(case.config), targets, best)
    strength = strength_for(store, case, arm, settings)
    print(f"{case.name} {arm} {settings} {strength:.3g}", flush=True)
    trained = way.run(task, store, strength)
    save(store, task, f"{case.name}-{arm}", trained)
    record = record_of(task, arm, trained)
    if way.strength:
        near = NEAR * case.most <= record.mult_adds <= case.most
        record = replace(record, strength=strength, missed=not near)
    store.add(case.name, record)
    return record


def strength_for(store: Store, case: Case, arm: str, settings: Settings) -> float:
    """The next to try; the first is what did for other settings of this arm."""
    way, records = ARMS[arm], [r for r in store.of(case.name) if r.arm == arm and r.strength]
    if not way.strength:
        return 0.0
    scale = settings.rate if way.by_rate else 1.0
    landed = [r.strength * (r.rate if way.by_rate else 1) for r in records if r.strength and not r.missed]
    tries = [r for r in records if r.settings == settings]
    strength = next_strength(tries, case.most, (landed[-1] if landed else way.strength) / scale)
    if strength is None:
        raise Waits(f"a strength; {TRIES} missed the budget")
    return strength


def record_of(task: Task, arm: str, trained: Trained) -> Record:
    """The numbers of a run."""
    widths, case = trained.model.widths, task.case
    valid = [round(value, 3) if math.isfinite(value) else 1e6 for value in trained.valid]
    return Record(
        arm, *task.settings, valid=valid, widths=list(widths), mult_adds=case.mult_adds(widths),
        weights=case.weights(widths), seconds=round(trained.seconds, 1),
    )  # fmt: skip


def taught(store: Store, case: Case) -> list[leanrnn.SoftTargets]:
    """What the teacher says of every window of an epoch; it is asked once."""
    teacher = CASES[case.teacher]
    best = chosen(store.of(teacher.name), "dense")
    if best is None:
        raise Waits("its teacher")
    file = store.file(f"{teacher.name}-taught", *best.settings)
    if not file.exists():
        task = Task(teacher, best.settings, text_of(teacher.config))
        leanrnn.record_targets(
            file, _answers(model_of(store, task, "dense"), task), top=min(TOP, teacher.config.vocabulary)
        )
    stored = leanrnn.StoredTargets(file)
    return [stored[i] for i in range(len(stored))]


@torch.no_grad()
def _answers(model: LanguageModel, task: Task) -> Iterator[torch.Tensor]:
    """Scores of every window, without dropout, the state carried on."""
    state: State | None = None
    model.eval()
    for words, _ in windows(task.rows, task.case.config.window):
        scores, state = model(words, state)
        state = detached(state)
        yield scores


def model_of(store: Store, task: Task, arm: str) -> LanguageModel:
    """The model of a run that was done; trained again if it was not kept."""
    file = store.file(f"{task.case.name}-{arm}", *task.settings)
    if not file.exists():
        run(store, task.case, arm, task.settings)
    return load_language_model(file)


def judge(store: Store, case: Case, arm: str) -> list[Record]:
    """Read the test text for runs that count and that have not done so."""
    done = []
    for record in final(store.of(case.name), arm):
        if record.test is None:
            task = Task(case, record.settings, text_of(case.config))
            test = perplexity(model_of(store, task, arm), task.text.test, 1, 1000, whole=True)
            done.append(replace(record, test=round(test, 3)))
            store.add(case.name, done[-1])
    return done


def next_run(store: Store, cases: Sequence[str], arms: Sequence[str], seeds: Sequence[int]) -> bool:
    """Do the next run that nobody else is at; False if there is none."""
    for case, arm, settings in wanted(store, cases, arms, seeds):
        with store.claim(case.name, arm, *settings) as mine:
            if not mine:
                continue
            try:
                record = run(store, case, arm, settings)
            except Waits as what:
                print(f"{case.name} {arm} waits for {what}", flush=True)
                continue
            print(told(case, record), flush=True)
            for each in judge(store, case, arm):
                print(told(case, each), flush=True)
            return True
    return False


def told(case: Case, record: Record) -> str:
    """One line."""
    about = f"{case.name} {record.arm}: rate {record.rate:g} keep {record.keep:g} seed {record.seed}"
    strength = f" strength {record.strength:.3g}" if record.strength else ""
    result = f"valid {record.valid[-1]:.2f}" + (f" test {record.test:.2f}" if record.test else "")
    size = f"widths {record.widths}, {record.mult_adds / 1e3:.0f} k of {case.most / 1e3:.0f} k mult-adds"
    return f"{about}{strength}: {result}{' MISSED' if record.missed else ''}, {size}, {record.seconds:.0f} s"


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Until nothing is missing or the time is over."""
    parser.add_argument("--case", choices=CASES, action="append", default=[])
    parser.add_argument("--arm", choices=ARMS, action="append", default=[])
    parser.add_argument("--seed", type=int, choices=SEEDS, action="append", default=[])
    parser.add_argument("--hours", type=float, default=math.inf)
    parser.add_argument("--runs", type=int, default=10**6, help="how many at most")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    begun, longest = time.monotonic(), 0.0
    for _ in range(options.runs):
        began = time.monotonic()
        if began - begun + longest > options.hours * 3600:
            break
        if not next_run(Store(), options.case or list(CASES), options.arm or list(ARMS), options.seed or SEEDS):
            break
        longest = max(longest, time.monotonic() - began)
