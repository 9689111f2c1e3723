"""Which trials are hopeless: a forecast of the final score from the score so far and from what is still to be cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["Point", "forecast", "hopeless"]

Point = tuple[float, float, float]
"""Part of the training that is done, score there (lower is better), and cost as a part of the budget."""
ENOUGH = 4
"""Finished trials that a forecast needs."""


def forecast(now: Point, finished: Sequence[Sequence[Point]]) -> tuple[float, float] | None:
    """The final score that is to be expected, and the best that is still likely; None if too little is known. ::

        forecast((0.5, 120.0, 1.8), [[(0.5, 118.0, 1.7), (1.0, 101.0, 1.0)], ...])

    From every finished trial it takes by what factor the score changed from this part of the training to the end, and
    by what factor the cost did; a line through both says what the change is for a model that has as much to lose.
    """
    changes, losses = [], []
    for points in finished:
        there = _at(points, now[0])
        if there is None:
            continue
        changes.append(math.log(points[-1][1] / there[0]))
        losses.append(math.log(max(there[1], 1e-9) / max(points[-1][2], 1e-9)))
    if len(changes) < ENOUGH:
        return None
    change, left = np.array(changes), np.array(losses)
    slope = 0.0
    if np.ptp(left) > 0.05:
        slope = max(0.0, float(np.polyfit(left, change, 1)[0]))  # cutting more never makes a model better
    here = slope * (math.log(max(now[2], 1e-9)) - float(left.mean()))
    rest = change - slope * (left - left.mean())
    middle, apart = float(rest.mean()), max(float(rest.std(ddof=1)), 0.005)
    return now[1] * math.exp(middle + here), now[1] * math.exp(middle + here - 2 * apart)


def hopeless(now: Point, finished: Sequence[Sequence[Point]], best: float | None) -> bool:
    """Whether even the best that is likely is worse than what there is already."""
    if best is None or now[0] >= 1:
        return False
    found = forecast(now, finished)
    return found is not None and found[1] > best


def _at(points: Sequence[Point], part: float) -> tuple[float, float] | None:
    """Score and cost of a finished trial at a part of its training, in between by a line; None before its first."""
    parts = [each[0] for each in points]
    if not parts or part < parts[0] - 1e-9:
        return None
    score, cost = (float(np.interp(part, parts, [each[i] for each in points])) for i in (1, 2))
    return score, cost
