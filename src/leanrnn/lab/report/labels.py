"""Names beside points that do not lie on each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from leanrnn.lab.report.drawing import SOFT

__all__ = ["apart"]

SIZE, GAP = 8, 10.5  # points: of the letters, and from one line to the next


def apart(axis: Any, names: Sequence[str], xs: Sequence[float], ys: Sequence[float]) -> None:
    """Write each name beside its point, towards the middle, higher or lower where another stands already; a thin line
    leads to the point then. ::

        apart(axis, ["dense", "lean"], [2.6, 0.9], [119.2, 119.0])
    """
    low, high = axis.get_xlim()
    bottom, top = axis.get_ylim()
    height = axis.get_position().height * axis.figure.get_figheight() * 72 * 0.72
    scale = height / (top - bottom)  # points a unit, about: the layout is only settled when it is drawn
    for right in (False, True):
        chosen = [i for i, x in enumerate(xs) if (x < (low + high) / 2) == right]
        for i, place in zip(chosen, _spread([(ys[i] - bottom) * scale for i in chosen], height), strict=True):
            moved = place - (ys[i] - bottom) * scale
            line = {"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            axis.annotate(
                names[i], (xs[i], ys[i]), (7 if right else -7, moved), textcoords="offset points", fontsize=SIZE,
                va="center", ha="left" if right else "right", arrowprops=line if abs(moved) > 4 else None,
            )  # fmt: skip


def _spread(places: Sequence[float], height: float) -> list[float]:
    """The same places in the same order, a line apart at least, and as far as there is room within the height."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found = list(places)
    for before, i in pairwise(order):
        found[i] = max(found[i], found[before] + GAP)
    if order and (over := found[order[-1]] - height) > 0:  # too high: from the top down again
        found[order[-1]] -= over
        for after, i in pairwise(order[::-1]):
            found[i] = min(found[i], found[after] - GAP)
    return found
