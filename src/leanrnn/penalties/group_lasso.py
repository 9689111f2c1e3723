"""Penalties that push whole groups to zero: value, gradient and proximal step.

For group lasso the gradient of weight (i, j) is ``strength * w_ij * (1/norm[group of row i] + 1/norm[group of column
j])``: two rank-one passes over each matrix, without a copy of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import Biases, Entry, GroupIndex, counting

__all__ = ["Amount", "GroupLasso", "Penalty", "amount_for", "dense_grad", "select"]

Amount: TypeAlias = float | Tensor | Mapping[Tensor, float | Tensor]
"""One number for all parameters (a tensor costs no synchronisation), or one per parameter; a parameter that is not in
the mapping is left alone."""


class Penalty(Protocol):
    """What :class:`~leanrnn.Sparsifier` asks of a penalty; bring your own by writing these four methods."""

    def value(self) -> Tensor:
        """The penalty at strength 1, differentiable."""

    def add_gradient_(self, strength: Amount) -> None:
        """Add ``strength`` times the gradient to ``.grad`` of the trainable parameters."""

    def proximal_(self, step: Amount) -> None:
        """Move the trainable parameters to where the penalty is smaller, by a step of this size."""

    def cut_(self, masks: Mapping[str, NDArray[np.bool_]]) -> None:
        """Told which components stay, before they are cut out of the groups."""


class GroupLasso:
    """Sum over all components of ``sqrt(epsilon + sum of squares of the group)``, the paper's penalty.

    Groups overlap: a recurrent weight is in the group of its row and in the
    group of its column, and the crossings of a component's own row and column are counted twice, as in the paper.
    Frozen parameters (``requires_grad=False``) count in the norms and are not changed. ::

        penalty = GroupLasso(groups)
        loss = loss + 2e-3 * penalty.value()      # in the loss, or
        penalty.add_gradient_(2e-3)               # straight into .grad, or
        penalty.proximal_(lr * 2e-3)              # straight into the weights, after optimizer.step()

    Args:
        groups: what to penalise; follows them when they are cut.
        epsilon: inside the root, so that a dead group has gradient zero instead of NaN.
        size_weighted: weight every group with the root of its size. Sizes are those at construction, so that cutting
            other components does not change the pull on those that stay.
        weights: a factor for every layer by name, 1 for those not named; more for a layer whose components are dear.
        biases: which biases count as part of the group. The paper regularises none, and by default nor does this,
            except in layers that are only dead when their biases are zero (``layer.needs_zero_bias``).
    """

    def __init__(
        self,
        groups: Groups,
        *,
        epsilon: float = 1e-8,
        size_weighted: bool = False,
        weights: Mapping[str, float] | None = None,
        biases: Biases = "needed",
    ) -> None:
        if not 0 <= epsilon < math.inf:
            raise GroupsError(f"epsilon is {epsilon}. Give a number of at least 0; the paper uses 1e-8.")
        self.weights = dict(weights or {})
        for name, weight in self.weights.items():
            if name not in groups.names or not 0 <= weight < math.inf:
                raise GroupsError(
                    f"weights has {weight} for {name!r}. Give numbers of at least 0 for {', '.join(groups.names)}."
                )
        self.groups, self.epsilon, self.size_weighted, self.biases = groups, epsilon, size_weighted, biases
        self._index = GroupIndex(groups, counting(biases))
        self.sizes: dict[str, list[int]] = {layer.name: layer.group_sizes.tolist() for layer in groups}
        """Sizes of the groups when the penalty was built, by layer."""
        self._roots: tuple[Any, Tensor] = (None, torch.empty(0))

    def norms(self) -> dict[str, Tensor]:
        """Norm of every group by layer, without epsilon, so that a dead group has norm zero; no synchronisation."""
        index = self._index.refresh()
        return index.by_layer(index.squares().sqrt())

    def value(self) -> Tensor:
        """The penalty at strength 1. Added to the loss it is what the paper does: clipped with the data gradient."""
        index = self._index.refresh()
        squares, weights = index.squares(), self._weights()
        roots = (squares + self.epsilon).sqrt()
        value = (roots * weights).sum()
        if torch.is_grad_enabled():
            flat = index.spread(weights / roots, 0.0).sum(0)
            for entry in _trainable(index):
                value = value + cast(Tensor, _Slope.apply(entry.tensor, entry, flat)).to(value)  # type: ignore[no-untyped-call]
        return value

    @torch.no_grad()
    def add_gradient_(self, strength: Amount) -> None:
        """Add ``strength`` times the gradient of :meth:`value` to ``.grad``, creating it where there is none."""
        index = self._index.refresh()
        pull = self._weights() * (index.squares() + self.epsilon).rsqrt()
        flat = index.spread(pull, 0.0).sum(0)
        for entry in _trainable(index):
            amount = amount_for(strength, entry.tensor)
            if amount is not None:
                grad = dense_grad(entry.name, entry.tensor)
                for factor in entry.vectors(flat * amount):
                    grad.addcmul_(entry.tensor, factor)

    @torch.no_grad()
    def proximal_(self, step: Amount) -> None:
        """Multiply every weight by ``max(0, 1 - step / norm)`` of its group, by both factors if it is in two.

        This is the exact proximal step of ``step`` times the norms (epsilon left out) for every group that shares no
        weight with another and has no crossings. Where groups overlap the exact step has no closed form; the product
        agrees with it to first order in ``step``, zeroes every group whose norm is at most ``step`` (times its weight),
        and for weights in at most two strips does not increase ``|new - old|^2 / 2 + step * (sum of norms)``, the
        function the exact step minimises.
        All norms are taken before the first weight changes.
        """
        index = self._index.refresh()
        tiny = torch.finfo(index.dtype).tiny
        pull = self._weights() / index.squares().sqrt().clamp_min(tiny)
        flat = index.spread(pull, 0.0)
        for entry in _trainable(index):
            amount = amount_for(step, entry.tensor)
            if amount is not None:
                for factor in entry.vectors((1 - flat * amount).clamp_min_(0).prod(0)):
                    entry.tensor.mul_(factor)

    def cut_(self, masks: Mapping[str, NDArray[np.bool_]]) -> None:
        """Keep the sizes of the components that stay; called before ``groups`` are cut."""
        self.set_sizes({name: np.asarray(sizes)[masks[name]].tolist() for name, sizes in self.sizes.items()})

    def set_sizes(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Take these for the sizes of the groups, by layer; they matter when ``size_weighted``."""
        self.sizes, self._roots = {name: list(counts) for name, counts in sizes.items()}, (None, torch.empty(0))

    def _weights(self) -> Tensor:
        index, key = self._index, (self.groups.layers, self._index.device, self._index.dtype)
        if self._roots[0] != key:
            if {name: len(sizes) for name, sizes in self.sizes.items()} != self.groups.widths:
                self.sizes = {layer.name: layer.group_sizes.tolist() for layer in self.groups}
            roots = torch.from_numpy(np.concatenate([self._factors(name) for name in self.groups.names]))
            self._roots = (key, roots.to(index.device, index.dtype))
        return self._roots[1]

    def _factors(self, layer: str) -> NDArray[np.float64]:
        sizes = np.asarray(self.sizes[layer], dtype=np.float64)
        return self.weights.get(layer, 1.0) * (np.sqrt(sizes) if self.size_weighted else np.ones_like(sizes))


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


class _Slope(torch.autograd.Function):
    """Adds nothing to the value, but carries the gradient of the penalty to one parameter.

    One node per parameter: each gradient is accumulated before the next is made, and nothing but the parameter itself
    is kept for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, entry: Entry, flat: Tensor) -> Tensor:
        ctx.save_for_backward(parameter, flat)
        ctx.entry = entry
        return parameter.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        parameter, flat = ctx.saved_tensors
        first, *others = ctx.entry.vectors(flat * slope.to(flat))
        grad = parameter * first
        for factor in others:
            grad.addcmul_(parameter, factor)
        return grad, None, None


def _trainable(index: GroupIndex) -> Iterator[Entry]:
    return (entry for entry in index.entries if entry.tensor.requires_grad)


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
