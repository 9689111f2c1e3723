"""What a model may cost: budgets as they are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from leanrnn.errors import BudgetError
from leanrnn.groups.costs import NAMES
from leanrnn.groups.groups import Groups
from leanrnn.groups.limits import NUMBERS, CostLike, Limits, TimedLike, check_possible

__all__ = ["Amount", "Budget"]

Amount = int | float | str
"""A number, or a part of what there is now, ``"25%"``."""


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
        check_possible(found, groups)
        return found

    def limits_of(self, data: Mapping[str, Any], groups: Groups) -> Limits:
        """The limits whose :meth:`Limits.to_data` this is: parts of a model as it once was. ::

        budget.limits_of(limits.to_data(), groups) == limits
        """
        costs, numbers = self.costs(groups), {name: data[name] for name in NUMBERS}
        latency = self.latency if "milliseconds" in costs else None
        return Limits(costs, round_to=self.round_to, latency=latency, **numbers)


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
