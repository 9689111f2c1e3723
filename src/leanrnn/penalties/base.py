"""What every penalty is, and what all of them need: an amount for each parameter, its gradient, and which are meant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import torch
from torch import Tensor

from leanrnn.errors import GroupsError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import Biases, counting

__all__ = ["Amount", "Penalty", "amount_for", "dense_grad", "select", "trainable"]

Amount: TypeAlias = float | Tensor | Mapping[Tensor, float | Tensor]
"""One number for all parameters (a tensor costs no synchronisation), or one per parameter; a parameter that is not in
the mapping is left alone."""


class Penalty(ABC):
    """Something that grows with the weights of a model; what :class:`~leanrnn.Sparsifier` asks of it.

    Derive your own from it with three methods, and with the other three if it keeps something from step to step::

        class Ridge(leanrnn.Penalty):
            def value(self): ...
            def add_gradient_(self, strength): ...
            def proximal_(self, step): ...

        leanrnn.Sparsifier(groups, strength=1e-3, penalty=Ridge())
    """

    @abstractmethod
    def value(self) -> Tensor:
        """The penalty at strength 1, differentiable."""

    @abstractmethod
    def add_gradient_(self, strength: Amount) -> None:
        """Add ``strength`` times the gradient to ``.grad`` of the trainable parameters."""

    @abstractmethod
    def proximal_(self, step: Amount) -> None:
        """Move the trainable parameters to where the penalty is smaller, by a step of this size."""

    def cut_(self, masks: Masks) -> None:  # noqa: B027 - not abstract: few keep a number per component
        """Called with the components that stay, before the others are cut out of the groups."""

    def state_dict(self) -> dict[str, Any]:
        """What changed since construction, as plain data that fits into JSON."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - not abstract: few have a state
        """Go on from what :meth:`state_dict` returned."""


def select(groups: Groups, patterns: Sequence[str] | None = None, biases: Biases = False) -> dict[str, Tensor]:
    """Parameters by name: those with a weight (or also a bias) in a group, or those whose name matches a pattern.

    Among the matching ones only those of two and more dimensions, unless ``biases`` is true. ::

        list(select(groups, ["rnn.*"]))
    """
    if patterns is not None:
        named = groups.model.named_parameters()
        matching = {n: p for n, p in named if any(fnmatchcase(n, pattern) for pattern in patterns)}
        return {n: p for n, p in matching.items() if biases is True or p.dim() > 1}
    wanted, tensors = counting(biases), groups.tensors()
    names = (strip.tensor for layer in groups for strip in layer.strips if wanted(layer, strip))
    return {name: tensors[name] for name in names if isinstance(tensors[name], torch.nn.Parameter)}


def trainable(parameters: Mapping[str, Tensor], amount: Amount) -> Iterator[tuple[str, Tensor, float | Tensor]]:
    """The parameters that may change, each with its name and its part of ``amount``. ::

    for name, parameter, strength in trainable(select(groups), 2e-3): ...
    """
    for name, parameter in parameters.items():
        mine = amount_for(amount, parameter)
        if parameter.requires_grad and mine is not None:
            yield name, parameter, mine


def amount_for(amount: Amount, parameter: Tensor) -> float | Tensor | None:
    """The number for one parameter, None if it is to be left alone."""
    return amount.get(parameter) if isinstance(amount, Mapping) else amount


def dense_grad(name: str, parameter: Tensor) -> Tensor:
    """The gradient of a parameter, zeros where there is none yet."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    if parameter.grad.layout != torch.strided:
        raise GroupsError(f"the gradient of {name!r} is sparse. Build that embedding with sparse=False.")
    return parameter.grad
