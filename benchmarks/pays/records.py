"""What was measured, a file for every case; several programs may add to it at once."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT
from benchmarks.pays.cases import Settings

__all__ = ["Record", "Store"]


@dataclass(frozen=True)
class Record:
    """One run, from its first step to its last."""

    arm: str
    rate: float
    keep: float
    seed: int
    valid: list[float]
    """Perplexity of the validation text after every epoch."""
    widths: list[int]
    mult_adds: float
    """A word."""
    weights: int
    seconds: float
    """Of the processor, for training."""
    test: float | None = None
    """Of the chosen settings only."""
    strength: float | None = None
    """Of an arm that has one."""
    missed: bool = False
    """Whether it does not count, as its strength led to more or far less than the budget."""

    @property
    def settings(self) -> Settings:
        """What was tuned."""
        return Settings(self.rate, self.keep, self.seed)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells one run from another."""
        return (self.arm, self.settings, self.strength)


class Store:
    """Records in ``results``, and in ``work`` what would take long to make again: models, and what a teacher says."""

    def __init__(self, results: Path = RESULTS / "pays", work: Path = ROOT / "runs" / "pays") -> None:
        self.results, self.work = results, work
        for folder in (results, work):
            folder.mkdir(parents=True, exist_ok=True)

    def of(self, case: str) -> list[Record]:
        """All runs of a case."""
        file = self.results / f"{case}.json"
        return [Record(**each) for each in json.loads(file.read_text())] if file.exists() else []

    def add(self, case: str, record: Record) -> None:
        """Write a run down, in the place of what was there of the same run."""
        with (self.work / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = [each for each in self.of(case) if each.key != record.key] + [record]
            lines = ",\n".join(json.dumps(asdict(each)) for each in sorted(records, key=lambda r: str(r.key)))
            part = self.work / f"{case}.part"
            part.write_text(f"[\n{lines}\n]\n")
            part.replace(self.results / f"{case}.json")

    def file(self, *names: Any) -> Path:
        """Where something of this name is kept."""
        return self.work / ("-".join(str(name) for name in names) + ".safetensors")

    @contextmanager
    def claim(self, *names: Any) -> Iterator[bool]:
        """Whether nobody else is at it; it ends with the program, however that ends."""
        with self.file(*names).with_suffix(".claim").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
