"""What a model may cost: budgets as they are written, and the limits they are for one model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from torch import nn

from leanrnn.errors import BudgetError
from leanrnn.groups.costs import NAMES
from leanrnn.groups.groups import Groups

__all__ = ["Amount", "Budget", "CostLike", "Limits"]

Amount = int | float | str
"""A number, or a part of what there is now, ``"25%"``."""


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
class Budget:
    """What the model may cost: absolute, or a part of the model as it is; of several the tightest counts. ::

    leanrnn.Budget(mult_adds="25%")
    leanrnn.Budget(weights=1_000_000, bytes="50%", floors=16, round_to=8)
    leanrnn.Budget(widths={"rnn.l0": 100, "rnn.l1": "50%"})
    """

    mult_adds: Amount | None = None
    """Multiplications with addition of one call on the example of ``discover``."""
    weights: Amount | None = None
    """Numbers in all parameters."""
    bytes: Amount | None = None
    """The memory they take."""
    milliseconds: Amount | None = None
    """Of one call, as ``latency`` has it."""
    widths: Amount | Mapping[str, Amount] | None = None
    """The most components a layer may have, for all layers or by name."""
    floors: Amount | Mapping[str, Amount] = 1
    """The fewest components that every layer keeps, for all or by name."""
    round_to: int = 1
    """Keep a multiple of so many components in every layer that loses some."""
    latency: TimedLike | None = None
    """Milliseconds as a function of the widths, for ``milliseconds``: what ``leanrnn.fit_latency`` returns."""

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in (*NAMES, "milliseconds", "widths")):
            raise BudgetError("this budget limits nothing. Give mult_adds, weights, bytes, milliseconds or widths.")
        if self.milliseconds is not None and self.latency is None:
            raise BudgetError(
                "milliseconds depend on the machine, and need to be measured. "
                "Give latency=leanrnn.fit_latency(model, groups) along with them."
            )
        if self.round_to < 1:
            raise BudgetError(f"round_to is {self.round_to}. Give a number of 1 or more.")
        for name in (*NAMES, "milliseconds"):
            if getattr(self, name) is not None:
                _amount(name, getattr(self, name), 1.0)
        for name in ("widths", "floors"):
            given = getattr(self, name)
            for each in given.values() if isinstance(given, Mapping) else [given]:
                if each is not None:
                    _amount(name, each, 1.0)

    @classmethod
    def parse(cls, texts: Sequence[str], latency: TimedLike | None = None) -> Budget:
        """A budget from words as on the command line: ``Budget.parse(["mult_adds=25%", "floors=16"])``."""
        names = [each.name for each in fields(cls) if each.name != "latency"]
        given: dict[str, Any] = {}
        for text in texts:
            name, sign, amount = (part.strip() for part in text.partition("="))
            if not sign or name not in names or name in given:
                again = f" {name} is there already." if name in given else ""
                raise BudgetError(f"{text!r} is no part of a budget.{again} Give NAME=AMOUNT, with {', '.join(names)}.")
            given[name] = amount
        if "round_to" in given:
            if not given["round_to"].isdigit():
                raise BudgetError(f"round_to is {given['round_to']!r}. Give a whole number.")
            given["round_to"] = int(given["round_to"])
        return cls(**given, latency=latency)

    def costs(self, groups: Groups) -> dict[str, CostLike]:
        """What is limited, by name, as functions of the widths. ::

        Budget(weights="50%").costs(groups)["weights"].at(groups.widths)
        """
        found: dict[str, CostLike] = {name: groups.costs[name] for name in NAMES if getattr(self, name) is not None}
        if self.milliseconds is not None and self.latency is not None:
            found["milliseconds"] = self.latency
        return found

    def limits(self, groups: Groups) -> Limits:
        """The budget in numbers for a model as it is now; :class:`BudgetError` if no widths hold it. ::

        limits = Budget(mult_adds="25%").limits(groups)
        """
        wanted = self.costs(groups)
        start = {name: float(cost.at(groups.widths)) for name, cost in wanted.items() if name in NAMES}
        if self.latency is not None and "milliseconds" in wanted:
            start["milliseconds"] = self.latency.timed_at(groups.widths)
        most = {name: _amount(name, getattr(self, name), start[name]) for name in wanted}
        caps = {name: math.floor(n) for name, n in _by_layer("widths", self.widths, groups).items()}
        floors = {name: max(1, math.ceil(n)) for name, n in _by_layer("floors", self.floors, groups).items()}
        for name, width in groups.widths.items():
            floors[name] = min(width, floors.get(name, 1))
            caps[name] = min(width, caps.get(name, width))
        latency = self.latency if "milliseconds" in wanted else None
        found = Limits(wanted, most, start, groups.widths, caps, floors, self.round_to, latency)
        _check_possible(found, groups)
        return found

    def limits_of(self, data: Mapping[str, Any], groups: Groups) -> Limits:
        """The limits whose :meth:`Limits.to_data` this is: parts of a model as it once was. ::

        budget.limits_of(limits.to_data(), groups) == limits
        """
        costs, numbers = self.costs(groups), {name: data[name] for name in _NUMBERS}
        latency = self.latency if "milliseconds" in costs else None
        return Limits(costs, round_to=self.round_to, latency=latency, **numbers)


_NUMBERS = ("most", "start", "widths", "caps", "floors")


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
        return {name: dict(getattr(self, name)) for name in _NUMBERS}

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


def _amount(name: str, given: Amount, whole: float) -> float:
    """A number, or the part of ``whole`` that a percentage means."""
    text = str(given).strip()
    part = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf or (part and number > 100):
        raise BudgetError(f"{name} is {given!r}. Give a number above 0, or a part of what there is now, such as '25%'.")
    return number / 100 * whole if part else number


def _by_layer(name: str, given: Amount | Mapping[str, Amount] | None, groups: Groups) -> dict[str, float]:
    if given is None:
        return {}
    each = given if isinstance(given, Mapping) else dict.fromkeys(groups.names, given)
    return {layer: _amount(f"{name} of {layer!r}", n, groups[layer].width) for layer, n in each.items()}


def _check_possible(limits: Limits, groups: Groups) -> None:
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
        return "Raise the budget or lower floors, or offer more widths with discover(..., scope='all')."
    pins = "; ".join(f"{name} ({reason})" for name, reason in groups.pinned[:3])
    more = f" and {len(groups.pinned) - 3} more" if len(groups.pinned) > 3 else ""
    return f"Raise the budget or lower floors, or look at what is pinned: {pins}{more}."


def _told(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
