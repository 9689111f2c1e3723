"""What a model costs, as an exact function of its widths.

A matrix product costs the product of its extents, a parameter that of its axes, and an extent grows with the widths
that run along it. So a cost is a polynomial in the widths: a number for every set of widths that multiply each other.
It says what any widths would cost, and stays true when components are cut out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import GroupsError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Cost", "Costs", "Number", "count_weights"]

Number = TypeVar("Number", int, NDArray[np.int64])
"""A width, or many widths to be tried at once."""
Terms = Mapping[tuple[str, ...], int | float]


@dataclass(frozen=True)
class Cost:
    """One cost as a function of the widths of the layers. ::

    cost = groups.costs.mult_adds
    cost.at(groups.widths)                    # of the model as it is
    cost.at(groups.widths | {"rnn.l0": 100})  # with 100 components in that layer
    cost.marginal(groups.widths, "rnn.l0")    # what one component less saves
    """

    terms: Terms
    """Names of the layers whose widths are multiplied, and with which number; the empty name is a constant."""

    def at(self, widths: Mapping[str, Number]) -> Number:
        """The cost at these widths, one for every layer; whole numbers, or arrays of them."""
        total: Any = 0
        for names, factor in self.terms.items():
            term: Any = factor
            for name in names:
                term = term * _width(widths, name)
            total = total + term
        found: Number = total
        return found

    def marginal(self, widths: Mapping[str, Number], layer: str) -> Number:
        """What the cost falls by if one component of ``layer`` goes, at these widths."""
        narrower = {**widths, layer: _width(widths, layer) - 1}
        touched = Cost({names: factor for names, factor in self.terms.items() if layer in names})
        found: Any = touched.at(widths) - touched.at(narrower)
        return found  # type: ignore[no-any-return]

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers whose widths it depends on."""
        return tuple(dict.fromkeys(name for names in self.terms for name in names))


@dataclass(frozen=True)
class Costs:
    """What the model costs in every sense that is known exactly; ``groups.costs`` has one."""

    mult_adds: Cost
    """Multiplications with addition in matrix products and convolutions, of one call on the example of ``discover``."""
    weights: Cost
    """As :func:`count_weights` counts them."""
    bytes: Cost
    """The memory they take."""
    notes: tuple[str, ...] = ()
    """What ``mult_adds`` leaves out or takes as constant, because it is not exactly known."""

    def __getitem__(self, name: str) -> Cost:
        if name not in NAMES:
            raise GroupsError(f"there is no cost {name!r}. Choose of {', '.join(NAMES)}.")
        found: Cost = getattr(self, name)
        return found

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        data: dict[str, Any] = {
            name: [[list(names), factor] for names, factor in self[name].terms.items()] for name in NAMES
        }
        return data | {"notes": list(self.notes)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Costs:
        """Costs from :meth:`to_data`."""
        costs = {name: Cost({tuple(names): factor for names, factor in data[name]}) for name in NAMES}
        return cls(**costs, notes=tuple(map(str, data["notes"])))


def count_weights(model: nn.Module) -> int:
    """The weights of a model, wherever leanrnn speaks of their number: the numbers in all of its parameters, biases
    among them and frozen ones too; a parameter that is used twice counts once, and buffers do not count. ::

        count_weights(nn.LSTM(4, 6))  # 288
    """
    return sum(parameter.numel() for parameter in model.parameters())


NAMES = ("mult_adds", "weights", "bytes")
"""The costs that are exact functions of the widths."""


def _width(widths: Mapping[str, Any], name: str) -> Any:
    if name not in widths:
        raise GroupsError(f"the cost depends on layer {name!r}, which has no width here. Give one for every layer.")
    return widths[name]
