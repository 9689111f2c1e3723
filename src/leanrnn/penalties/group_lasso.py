"""Group lasso, the paper's penalty: value, gradient and proximal step.

The gradient of weight (i, j) is ``strength * w_ij * (1/norm[group of row i] + 1/norm[group of column j])``: two
rank-one passes over each matrix, without a copy of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import Biases, Entry, GroupIndex, counting
from leanrnn.penalties.base import Amount, Penalty, amount_for, dense_grad

__all__ = ["GroupLasso"]


class GroupLasso(Penalty):
    """Sum over all components of ``sqrt(epsilon + sum of squares of the group)``, the paper's penalty.

    Groups overlap: a recurrent weight is in the group of its row and in the
    group of its column, and the crossings of a component's own row and column are counted twice, as in the paper.
    Frozen parameters (``requires_grad=False``) count in the norms and are not changed. ::

        penalty = GroupLasso(groups)
        loss = loss + 2e-3 * penalty.value()      # in the loss, or
        penalty.add_gradient_(2e-3)               # straight into .grad, or
        penalty.proximal_(lr * 2e-3)              # straight into the weights, after optimizer.step()

    Args:
        groups: what to penalise, also after they were cut.
        epsilon: inside the root, so that a dead group has gradient zero instead of NaN.
        weights: a factor for every layer by name, 1 for those not named; more for a layer whose components are dear.
        biases: which biases count as part of the group. The paper regularises none, and by default nor does this,
            except in layers that are only dead when their biases are zero (``layer.needs_zero_bias``).
    """

    def __init__(
        self,
        groups: Groups,
        *,
        epsilon: float = 1e-8,
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
        self.groups, self.epsilon, self.biases = groups, epsilon, biases
        self._index = GroupIndex(groups, counting(biases))
        self._factors: tuple[Any, Tensor] = (None, torch.empty(0))

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

    def _weights(self) -> Tensor:
        """The factor of every group; made again when the groups were cut or the model moved."""
        index, key = self._index, (self.groups.layers, self._index.device, self._index.dtype)
        if self._factors[0] != key:
            factors = np.repeat([self.weights.get(name, 1.0) for name in self.groups.names], index.widths)
            self._factors = (key, torch.from_numpy(factors).to(index.device, index.dtype))
        return self._factors[1]


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
