"""The strength at which an arm lands on the budget, looked for by bisection over whole runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.pays.records import Record

__all__ = ["NEAR", "TRIES", "next_strength"]

NEAR = 0.9  # part of the budget that is near enough, above it is never
TRIES = 8
AIM = 0.96


def next_strength(tries: Sequence[Record], most: float, guess: float) -> float | None:
    """The next to try, or None if one of them landed or there were enough; the stronger, the smaller a model. ::

    next_strength([], 140_000, guess=3e-3)  # 3e-3
    """
    if any(NEAR * most <= each.mult_adds <= most for each in tries) or len(tries) >= TRIES:
        return None
    if not tries:
        return guess
    weak = max((t for t in tries if t.mult_adds > most), key=_strength, default=None)
    strong = min((t for t in tries if t.mult_adds <= most), key=_strength, default=None)
    if weak is None or strong is None or _strength(weak) >= _strength(strong):
        return max(map(_strength, tries)) * 2 if strong is None else min(map(_strength, tries)) / 2
    above, below = math.log(weak.mult_adds / most / AIM), math.log(strong.mult_adds / most / AIM)
    part = min(0.85, max(0.15, above / (above - below)))
    return float(_strength(weak) * (_strength(strong) / _strength(weak)) ** part)


def _strength(record: Record) -> float:
    assert record.strength is not None
    return record.strength
