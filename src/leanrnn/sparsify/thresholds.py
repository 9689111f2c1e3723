"""Exact zeros: small weights, or small groups as a whole, are set to zero after every step.

A penalty brings weights near zero, where the gradient makes them flicker; a threshold puts them there. Which parameters
the paper thresholds differs from experiment to experiment in its source: every parameter of the language model (biases
and the embedding too, tau 1e-4), only weights in groups for the highway network (no biases, 4e-4), all weights and
biases of some scopes for question answering (even in the dense baseline, 4e-4). Here weights in groups are touched by
default, as in the highway network; ``biases`` and ``parameters`` give the other two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import Biases, GroupIndex, counting, is_weight
from leanrnn.penalties.base import select

__all__ = ["ElementThreshold", "GroupThreshold", "Threshold", "as_thresholds", "choose_threshold"]


class Threshold(Protocol):
    """What :class:`~leanrnn.Sparsifier` asks of a threshold."""

    def touches(self, groups: Groups) -> list[str]:
        """Names of the parameters it may change."""

    def apply_(self, groups: Groups, only: Container[Tensor] | None = None) -> None:
        """Set what is too small to zero, in the trainable parameters (those in ``only``, if given)."""

    def settings(self) -> dict[str, Any]:
        """What it was built with, as plain data."""


class ElementThreshold:
    """The paper's threshold: every single weight with ``|w| < tau`` becomes zero. Zeros may grow again.

    ::

        ElementThreshold(1e-4).touches(groups)     # weights in groups
        ElementThreshold(1e-4, biases=True, parameters=["*"])     # all there is: the paper's language model

    Args:
        tau: smaller magnitudes become zero (strictly smaller).
        biases: touch all biases in groups, none, or, by default, those of layers that are only dead when their biases
            are zero (``layer.needs_zero_bias``).
        parameters: shell-style patterns of parameter names, instead of the weights in groups.
    """

    def __init__(self, tau: float, *, biases: Biases = "needed", parameters: Sequence[str] | None = None) -> None:
        self.tau, self.biases, self.parameters = _checked("tau", tau), biases, parameters
        self._bounds = {dtype: _below(self.tau, dtype) for dtype in _DTYPES}

    def touches(self, groups: Groups) -> list[str]:
        """Names of the parameters it may change."""
        return list(select(groups, self.parameters, self.biases))

    @torch.no_grad()
    def apply_(self, groups: Groups, only: Container[Tensor] | None = None) -> None:
        """Zero the small elements, one pass in place, no temporary and no synchronisation."""
        for p in select(groups, self.parameters, self.biases).values():
            if p.requires_grad and (only is None or p in only):
                self.zero_(p)

    def zero_(self, tensor: Tensor) -> None:
        """Zero the small elements of one tensor."""
        # hardshrink zeroes |w| <= bound: the bound is the largest number of the type below tau.
        torch.ops.aten.hardshrink.out(tensor, self._bounds[tensor.dtype], out=tensor)

    def settings(self) -> dict[str, Any]:
        """What it was built with, as plain data."""
        return {"kind": "element", "tau": self.tau, "biases": self.biases, "parameters": self.parameters}


class GroupThreshold:
    """A cut on the norm of whole groups: a group whose norm is below ``cut`` becomes zero.

    It removes components that single weights, flickering around an element-wise threshold, keep alive. ::

        Sparsifier(groups, strength=2e-3, threshold=[ElementThreshold(1e-4), GroupThreshold(0.01)])

    Args:
        cut: groups with a smaller norm become zero (crossings counted twice).
        biases: zero the biases of the component as well. Where only weights read a component they mean nothing any
            more; where its value itself is read it is not dead without.
    """

    def __init__(self, cut: float, *, biases: Biases = True) -> None:
        self.cut, self.biases = _checked("cut", cut), biases
        self._indices: tuple[GroupIndex, GroupIndex] | None = None

    def touches(self, groups: Groups) -> list[str]:
        """Names of the parameters it may change."""
        return list(select(groups, None, self.biases))

    @torch.no_grad()
    def apply_(self, groups: Groups, only: Container[Tensor] | None = None) -> None:
        """Zero the small groups; two passes over the weights, no synchronisation."""
        norms, places = self._ready(groups)
        keep = (norms.squares().sqrt() >= self.cut).to(norms.dtype)
        flat = places.spread(keep, 1.0).prod(0)
        for entry in places.entries:
            if entry.tensor.requires_grad and (only is None or entry.tensor in only):
                for factor in entry.vectors(flat):
                    entry.tensor.mul_(factor)

    def settings(self) -> dict[str, Any]:
        """What it was built with, as plain data."""
        return {"kind": "group", "cut": self.cut, "biases": self.biases}

    def _ready(self, groups: Groups) -> tuple[GroupIndex, GroupIndex]:
        if self._indices is None or self._indices[0].groups is not groups:
            self._indices = (GroupIndex(groups, is_weight), GroupIndex(groups, counting(self.biases)))
        return self._indices[0].refresh(), self._indices[1].refresh()


def choose_threshold(
    model: nn.Module,
    groups: Groups,
    evaluate: Callable[[nn.Module], float],
    *,
    tolerance: float = 1e-3,
    higher_is_better: bool = False,
    evaluations: int = 16,
    biases: Biases = "needed",
    parameters: Sequence[str] | None = None,
) -> float:
    """The largest tau that leaves a dense model's score unharmed, which is how the paper chooses it.

    Bisects over the logarithm of tau between the smallest and largest magnitude of the weights, taking for granted
    that a larger tau does no less harm. The model is left as it was. Zero when even the smallest tau harms. ::

        tau = choose_threshold(model, groups, lambda m: validation_loss(m))

    Args:
        evaluate: gives a score, lower is better unless ``higher_is_better``.
        tolerance: harm that is still none, relative to the score of the untouched model.
        evaluations: how often ``evaluate`` may be called, besides once for the untouched model.
        biases: as in :class:`ElementThreshold`.
        parameters: as there, too.
    """
    weights = select(Groups(groups.layers, model=model), parameters, biases)
    saved = {name: p.detach().clone() for name, p in weights.items()}
    sign = -1.0 if higher_is_better else 1.0
    limit = sign * evaluate(model)
    limit += tolerance * abs(limit)

    def harmless(tau: float) -> bool:
        threshold = ElementThreshold(tau)
        try:
            for p in weights.values():
                threshold.zero_(p.detach())
            return sign * evaluate(model) <= limit
        finally:
            for name, p in weights.items():
                p.detach().copy_(saved[name])

    low, high = _magnitudes(saved.values())
    return _bisect(harmless, low, 2 * high, evaluations)


def _bisect(harmless: Callable[[float], bool], low: float, high: float, evaluations: int) -> float:
    """The largest harmless number found in ``[low, high]`` on a logarithmic scale; zero if there is none."""
    best = 0.0
    for _ in range(evaluations):
        middle = math.sqrt(low * high)
        if harmless(middle):
            best = low = middle
        else:
            high = middle
    return best


def _magnitudes(tensors: Iterable[Tensor]) -> tuple[float, float]:
    """Smallest and largest magnitude that is not zero."""
    low, high = math.inf, 0.0
    for tensor in tensors:
        sizes = tensor.abs()
        high = max(high, float(sizes.max()))
        low = min(low, float(torch.where(sizes > 0, sizes, math.inf).min()))
    return min(low, high), high


_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _below(tau: float, dtype: torch.dtype) -> float:
    """The largest number of a type that is smaller than ``tau``; zero when ``tau`` is zero."""
    with _disable_current_modes():  # a plain number, also while fake tensors are about
        nearest = torch.tensor(tau, dtype=dtype, device="cpu")
        if nearest.item() >= tau > 0:
            nearest = torch.nextafter(nearest, torch.zeros_like(nearest))
        return nearest.item()


def _checked(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise GroupsError(f"{name} is {value}. Give a finite number of at least 0.")
    return float(value)


def as_thresholds(given: float | Threshold | Sequence[Threshold] | None) -> list[Threshold]:
    """Thresholds from what :class:`~leanrnn.Sparsifier` takes: a number is the paper's tau. ::

    as_thresholds(1e-4)  # [ElementThreshold(1e-4)]
    """
    if given is None:
        return []
    if isinstance(given, (int, float)):
        return [ElementThreshold(given)]
    return list(given) if isinstance(given, Sequence) else [given]
