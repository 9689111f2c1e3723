"""The scoreboard from what was measured: the tables of docs/scoreboard.md, and its picture.

python -m benchmarks pays
"""

from __future__ import annotations

import statistics
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common import DOCS, between_marks, table
from benchmarks.pays.arms import ARMS, PLAIN, TAUGHT
from benchmarks.pays.cases import CASES, Case
from benchmarks.pays.grid import SEEDS, final
from benchmarks.pays.picture import COLOUR, Point, picture
from benchmarks.pays.records import Record, Store

PAGE, PICTURE = DOCS / "scoreboard.md", DOCS / "scoreboard.svg"
OURS = "ours"


@dataclass(frozen=True)
class Score:
    """What the seeds of one arm came to."""

    case: Case
    records: Sequence[Record]
    dense_seconds: float | None

    @property
    def mean(self) -> float:
        """Test perplexity."""
        return statistics.mean(r.test for r in self.records if r.test)

    @property
    def spread(self) -> float:
        """The standard deviation of the seeds; 0 of one."""
        tests = [r.test for r in self.records if r.test]
        return statistics.stdev(tests) if len(tests) > 1 else 0.0

    @property
    def told(self) -> str:
        """For a cell of the table."""
        if len(self.records) < 2:
            return f"{self.mean:.2f} (one seed)"
        return f"{self.mean:.2f} ± {self.spread:.2f}" + ("" if len(self.records) == len(SEEDS) else " (two seeds)")

    @property
    def mult_adds(self) -> float:
        """A word."""
        return statistics.mean(r.mult_adds for r in self.records)


Scores = Mapping[tuple[str, str], Score]


def scores(store: Store, cases: Mapping[str, Case] = CASES) -> Scores:
    """All that is complete enough to be shown: a tuned arm with a test, by names of case and arm."""
    found = {}
    for name, case in cases.items():
        dense = final(store.of(case.dense), "dense")
        for arm in ARMS:
            records = [r for r in final(store.of(name), arm) if r.test is not None]
            if records:
                found[name, arm] = Score(case, records, _newest(dense).seconds if dense else None)
    return found


def _newest(records: Sequence[Record]) -> Record:
    """Of the last seed: its time is that of the code as it is."""
    return max(records, key=lambda r: r.seed)


def main_table(found: Scores) -> str:
    """Test perplexity of every arm in every case; the best of those without and of those with a teacher are bold."""
    cases = [name for name, case in CASES.items() if case.times > 1 and any(key[0] == name for key in found)]
    rows = []
    for title, arms in (("dense, for comparison", ["dense"]), ("without a teacher", PLAIN), ("with a teacher", TAUGHT)):
        rows.append([f"*{title}*", *[""] * len(cases)])
        for arm in arms:
            if any(key[1] == arm for key in found):
                title = ARMS[arm].title + (", taught" if ARMS[arm].taught else "")
                rows.append([title, *(_cell(found, name, arm) for name in cases)])
    return table(["", *(f"{CASES[n].task}, {CASES[n].times} times less" for n in cases)], rows)


def _cell(found: Scores, case: str, arm: str) -> str:
    if arm == "dense":
        dense = found.get((CASES[case].dense, arm))
        return dense.told if dense else "-"
    if (case, arm) not in found:
        return "-"
    told = found[case, arm].told
    return f"**{told}**" if arm == best(found, case, TAUGHT if ARMS[arm].taught else PLAIN) else told


def best(found: Scores, case: str, arms: Mapping[str, object]) -> str | None:
    """The arm of the lowest perplexity."""
    there = [arm for arm in arms if (case, arm) in found]
    return min(there, key=lambda arm: found[case, arm].mean, default=None)


def verdicts(found: Scores) -> str:
    """A sentence for every case and group in which ours stands beside others: won, lost, or too close to tell."""
    lines = []
    for case in CASES:
        for group, ours in ((PLAIN, OURS), (TAUGHT, f"{OURS} taught")):
            others = {arm: group[arm] for arm in group if arm != ours and (case, arm) in found}
            if (case, ours) in found and others:
                lines.append(f"- {_verdict(found, case, ours, others)}")
    return "\n".join(lines)


def _verdict(found: Scores, case: str, ours: str, others: Mapping[str, object]) -> str:
    rival = best(found, case, others)
    assert rival is not None
    mine, theirs = found[case, ours], found[case, rival]
    by, noise = theirs.mean - mine.mean, max(mine.spread, theirs.spread)
    group = "with a teacher" if ARMS[ours].taught else "without a teacher"
    where = f"{mine.case.task}, {mine.case.times} times less, {group}"
    if min(len(mine.records), len(theirs.records)) < 2:
        outcome = f"ahead by {by:.2f}" if by > 0 else f"behind by {-by:.2f}"
        return f"{where}: ours is {outcome} of “{ARMS[rival].title}”, with one seed."
    outcome = "won" if by > noise else "lost" if by < -noise else "too close to tell"
    return f"{where}: {outcome}. Ours {mine.told}, “{ARMS[rival].title}” {theirs.told}."


def details(found: Scores, case: str) -> str:
    """What stands behind the numbers of one case."""
    rows = []
    for arm in ARMS:
        if (case, arm) in found:
            score = found[case, arm]
            first = min(score.records, key=lambda r: r.seed)
            valid = statistics.mean(r.valid[-1] for r in score.records)
            seconds = _newest(score.records).seconds
            share = f"{seconds / score.dense_seconds:.2f}" if score.dense_seconds else "-"
            title = ARMS[arm].title + (", taught" if ARMS[arm].taught else "")
            widths, size = ", ".join(map(str, first.widths)), f"{score.mult_adds / 1e3:.0f} k"
            rows.append([title, f"{valid:.2f}", score.told, widths, size, f"{first.rate:g}, {first.keep:g}", share])
    head = ["", "validation", "test", "widths, first seed", "mult-adds a word", "rate, keep", "training time"]
    return table(head, rows)


def points(found: Scores) -> list[Point]:
    """For the picture."""
    return [
        Point(score.case.task, arm.removesuffix(" taught"), ARMS[arm].taught, score.mult_adds, score.mean)
        for (_, arm), score in found.items()
        if arm.removesuffix(" taught") in COLOUR
    ]


def text(found: Scores) -> str:
    """All that stands between the marks."""
    parts = [main_table(found), verdicts(found)]
    for name, case in CASES.items():
        if case.times > 1 and any(key[0] == name for key in found):
            parts += [f"### {case.task}, {case.times} times fewer mult-adds", details(found, name)]
    return "\n\n".join(part for part in parts if part)


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Write the page and the picture."""
    parser.parse_args(words)
    found = scores(Store())
    PICTURE.write_text(picture(points(found), {arm: way.title for arm, way in ARMS.items()}))
    PAGE.write_text(between_marks(PAGE.read_text(), text(found), "written"))
