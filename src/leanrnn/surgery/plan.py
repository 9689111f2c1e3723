"""What was cut out of a model, as plain data: enough to cut a fresh copy of the dense model the same way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from leanrnn.groups.data import Place
from leanrnn.groups.wrapped import bare

__all__ = ["Plan", "Remembered", "plan_of", "set_plan", "whole_plan"]

Indices = NDArray[np.int64]
_ATTRIBUTE = "_leanrnn_plan"


class Remembered(NamedTuple):
    """A number in the user's own module that is a width, such as ``self.hidden_size``."""

    module: str
    path: tuple[str | int, ...]
    """The attribute, then keys or positions inside it: ``("sizes", 0)`` is ``module.sizes[0]``."""
    of: tuple[str, ...]
    """The layers whose widths add up to it (four times the same for four gates), or a tensor; empty for a number that
    has to stay what it was before any cut."""
    axis: int | None = None
    """Of a tensor: the axis whose length it is."""


@dataclass(frozen=True)
class Plan:
    """Kept indices, counted in the dense model, by layer and by tensor and axis."""

    layers: Mapping[str, list[int]] = field(default_factory=dict)
    cuts: Mapping[tuple[str, int], list[int]] = field(default_factory=dict)
    lengths: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How long each cut axis was in the dense model."""
    numbers: Mapping[Place, int] = field(default_factory=dict)
    """Numbers in the user's modules that were set to a new width."""
    held: Mapping[Place, tuple[int, list[int]]] = field(default_factory=dict)
    """Tensors that modules hold besides: how long their last axis was in the dense model, and what stays of it."""
    plain: bool = True

    def then(
        self,
        masks: Mapping[str, NDArray[np.bool_]],
        cuts: Mapping[tuple[str, int], Indices],
        lengths: Mapping[tuple[str, int], int],
        numbers: Mapping[Place, int],
        held: Mapping[Place, tuple[int, Indices]],
        plain: bool,
    ) -> Plan:
        """This plan followed by another cut of the model it left."""
        layers = {name: np.flatnonzero(mask) for name, mask in masks.items()}
        # A layer that was found again under the name of another one is not the same layer.
        same = {name: kept for name, kept in self.layers.items() if len(masks.get(name, kept)) == len(kept)}
        first = {**lengths, **self.lengths}
        kept = _chained(
            {place: kept for place, (_, kept) in self.held.items()}, {place: kept for place, (_, kept) in held.items()}
        )
        lost = {place: ({**held, **self.held}[place][0], kept[place]) for place in kept}
        return Plan(_chained(same, layers), _chained(self.cuts, cuts), first, {**self.numbers, **numbers}, lost, plain)

    def with_numbers(self, numbers: Mapping[Place, int]) -> Plan:
        """This plan with further numbers set."""
        return replace(self, numbers={**self.numbers, **numbers})

    def under(self, name: str) -> Plan:
        """This plan as one of a model that holds the cut model as its module ``name``."""
        return self.renamed(lambda inner: f"{name}.{inner}".rstrip("."))

    def renamed(self, new: Callable[[str], str]) -> Plan:
        """This plan with other names for layers, tensors and modules."""
        return Plan(
            {new(layer): kept for layer, kept in self.layers.items()},
            {(new(tensor), axis): kept for (tensor, axis), kept in self.cuts.items()},
            {(new(tensor), axis): length for (tensor, axis), length in self.lengths.items()},
            {(new(owner), path): number for (owner, path), number in self.numbers.items()},
            {(new(owner), path): kept for (owner, path), kept in self.held.items()},
            self.plain,
        )

    def beside(self, other: Plan) -> Plan:
        """This plan and that of another part of the same model."""
        layers, cuts = {**self.layers, **other.layers}, {**self.cuts, **other.cuts}
        lengths, numbers = {**self.lengths, **other.lengths}, {**self.numbers, **other.numbers}
        return Plan(layers, cuts, lengths, numbers, {**self.held, **other.held}, self.plain and other.plain)

    def to_json(self) -> str:
        """The plan as JSON text."""
        cuts = [[*key, self.lengths[key], kept] for key, kept in self.cuts.items()]
        numbers = [[module, list(path), value] for (module, path), value in self.numbers.items()]
        held = [[module, list(path), length, kept] for (module, path), (length, kept) in self.held.items()]
        return json.dumps(
            {"layers": dict(self.layers), "cuts": cuts, "numbers": numbers, "held": held, "plain": self.plain}
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan written by :meth:`to_json`."""
        data = json.loads(text)
        cuts = {(str(tensor), int(axis)): [int(i) for i in kept] for tensor, axis, _, kept in data["cuts"]}
        lengths = {(str(tensor), int(axis)): int(length) for tensor, axis, length, _ in data["cuts"]}
        numbers = {(str(module), tuple(path)): int(value) for module, path, value in data["numbers"]}
        held = {
            (str(module), tuple(path)): (int(length), [int(i) for i in kept])
            for module, path, length, kept in data["held"]
        }
        return cls(dict(data["layers"]), cuts, lengths, numbers, held, bool(data["plain"]))


def plan_of(model: nn.Module) -> Plan | None:
    """What was cut out of ``model`` so far, or None if nothing was."""
    found = vars(bare(model)).get(_ATTRIBUTE)
    return found if isinstance(found, Plan) else None


def whole_plan(model: nn.Module) -> Plan:
    """What was cut out of ``model`` and, before that, out of modules that were shrunk on their own."""
    inner = Plan()
    for name, module in model.named_modules():
        plan = plan_of(module)
        if name and plan is not None:
            inner = inner.beside(plan.under(name))
    own = plan_of(model)
    if own is None:
        return inner
    cuts = _chained(inner.cuts, {key: np.asarray(kept, np.int64) for key, kept in own.cuts.items()})
    return replace(own.beside(inner), cuts=cuts, lengths={**own.lengths, **inner.lengths}, plain=own.plain)


def set_plan(model: nn.Module, plan: Plan) -> None:
    """Keep ``plan`` with the model; a deep copy of the model has it too."""
    vars(model)[_ATTRIBUTE] = plan


def _chained(first: Mapping[Any, list[int]], second: Mapping[Any, Indices]) -> dict[Any, list[int]]:
    """Kept indices of two cuts in a row, counted as before the first."""
    found = {key: list(kept) for key, kept in first.items()}
    for key, kept in second.items():
        found[key] = np.asarray(first[key])[kept].tolist() if key in first else kept.tolist()
    return found
