"""A budget in numbers for one model, and whether there are widths that hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import nn

from leanrnn.errors import BudgetError
from leanrnn.groups.groups import Groups

__all__ = ["NUMBERS", "CostLike", "Limits", "TimedLike", "check_possible"]

NUMBERS = ("most", "start", "widths", "caps", "floors")
"""Those that :meth:`Limits.to_data` gives."""


class CostLike(Protocol):
    """A cost at any widths: a :class:`~leanrnn.groups.Cost`, or a latency that was fitted."""

    def at(self, widths: Mapping[str, Any]) -> Any:
        """The cost at these widths, whole numbers or arrays of them; it never rises as they fall."""


class TimedLike(CostLike, Protocol):
    """Milliseconds at any widths, as ``leanrnn.fit_latency`` fits them."""

    def timed_at(self, widths: Mapping[str, int]) -> float:
        """What was timed at these widths, or what is thought of them."""

    def correct(self, model: nn.Module, widths: Mapping[str, int]) -> float:
        """Time a model that has these widths, agree with that from now on, and return it."""


@dataclass(frozen=True)
class Limits:
    """What :meth:`Budget.limits` returns: a budget as numbers, for the layers of one model."""

    costs: Mapping[str, CostLike]
    """By name, as functions of the widths."""
    most: Mapping[str, float]
    """What each may be."""
    start: Mapping[str, float]
    """What each was."""
    widths: Mapping[str, int]
    """The width every layer had."""
    caps: Mapping[str, int]
    floors: Mapping[str, int]
    round_to: int = 1
    latency: TimedLike | None = None
    """Where milliseconds are limited: all else is exact, and these are measured."""

    def correct(self, model: nn.Module, widths: Mapping[str, int]) -> float:
        """Time a model of these widths, and go by that from now on; the part it takes of the milliseconds there are, 0
        if none are limited. ::

            limits.correct(model, groups.widths)  # 0.97
        """
        if self.latency is None:
            return 0.0
        return self.latency.correct(model, widths) / self.most["milliseconds"]

    def eased(self, left: float) -> Limits:
        """Limits on the way there: so much of the way is ``left``, 1 at the start and 0 at the end. ::

        limits.eased((1 - step / steps) ** 3)  # a cubic course
        """
        if left <= 0:
            return self
        most = {name: n + (self.start[name] - n) * left for name, n in self.most.items()}
        caps = {name: math.ceil(n + (self.widths[name] - n) * left) for name, n in self.caps.items()}
        return replace(self, most=most, caps=caps, round_to=1)

    def allowed(self, layer: str, width: int) -> list[int]:
        """The widths that a layer of ``width`` components may have, ascending: multiples of ``round_to`` between its
        floor and its cap, and all that it had at the beginning."""
        floor, cap = min(width, self.floors[layer]), min(width, self.caps[layer])
        steps = range(-(-floor // self.round_to) * self.round_to, cap + 1, self.round_to)
        whole = cap == width == self.widths[layer]
        return sorted({*steps, cap} if whole or not steps else steps)

    def to_data(self) -> dict[str, dict[str, float]]:
        """The numbers, as plain data; :meth:`Budget.limits_of` reads them again."""
        return {name: dict(getattr(self, name)) for name in NUMBERS}

    def hold(self, widths: Mapping[str, Any]) -> Any:
        """Whether widths are within what the costs may be; arrays of widths give an array."""
        within: Any = True
        for name, cost in self.costs.items():
            within = (cost.at(widths) <= self.most[name]) & within
        return within

    def tightest(self, widths: Mapping[str, int]) -> CostLike:
        """The cost that exceeds its limit by the largest factor."""
        name = max(self.costs, key=lambda n: self.costs[n].at(widths) / self.most[n])
        return self.costs[name]


def check_possible(limits: Limits, groups: Groups) -> None:
    """Refuse what no widths hold, and say what is possible and what holds the rest."""
    least = {name: limits.allowed(name, width)[0] for name, width in groups.widths.items()}
    for name, cost in limits.costs.items():
        reached, most, start = float(cost.at(least)), limits.most[name], limits.start[name]
        if reached > most:
            unit = name.replace("_", "-")
            at = ", ".join(f"{layer} {width}" for layer, width in least.items()) or "no layer can shrink"
            raise BudgetError(
                f"{_told(most)} {unit} are not possible. The least is {_told(reached)}, {reached / start:.1%} of "
                f"today's {_told(start)}, with the widths {at}. {_holding(groups)}"
            )


def _holding(groups: Groups) -> str:
    if not groups.pinned:
        return (
            "Raise the budget or lower floors, limit only what can shrink (widths=50%), or offer more widths with "
            "discover(..., scope='all')."
        )
    pins = "; ".join(f"{name} ({reason})" for name, reason in groups.pinned[:3])
    more = f" and {len(groups.pinned) - 3} more" if len(groups.pinned) > 3 else ""
    return f"Raise the budget or lower floors, or look at what is pinned: {pins}{more}."


def _told(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
