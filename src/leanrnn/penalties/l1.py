"""The penalty of single weights, for comparison."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import Biases
from leanrnn.penalties.base import Amount, Penalty, dense_grad, select, trainable

__all__ = ["L1"]


class L1(Penalty):
    """Sum of the magnitudes of single weights: the paper's comparison, which removes weights but hardly any component.

    ::

        penalty = L1(groups, parameters=["rnn.*", "head.*"], biases=True)

    Args:
        groups: the weights with strips in these groups are penalised by default.
        parameters: shell-style patterns of parameter names, instead of the weights in groups. The paper penalises all
            parameters of the language model but the embedding.
        biases: penalise biases as well (with patterns: all parameters of one dimension); the paper does.
    """

    def __init__(self, groups: Groups, *, parameters: Sequence[str] | None = None, biases: Biases = False) -> None:
        self.groups, self.patterns, self.biases = groups, parameters, biases
        if not self._selected():
            raise GroupsError(
                f"no parameter matches {parameters}. Give patterns such as 'rnn.*'; see groups.tensors()."
            )

    def norms(self) -> dict[str, Tensor]:
        """Sum of the magnitudes of every penalised parameter, by name."""
        return {name: torch.linalg.vector_norm(p.detach(), 1) for name, p in self._selected().items()}

    def value(self) -> Tensor:
        """The penalty at strength 1, differentiable."""
        parts = [torch.linalg.vector_norm(p, 1) for p in self._selected().values()]
        return torch.stack([part.to(parts[0]) for part in parts]).sum()

    @torch.no_grad()
    def add_gradient_(self, strength: Amount) -> None:
        """Add ``strength`` times the sign of every weight to ``.grad``; the gradient at zero is zero."""
        for name, p, amount in trainable(self._selected(), strength):
            dense_grad(name, p).add_(p.sign().mul_(amount))

    @torch.no_grad()
    def proximal_(self, step: Amount) -> None:
        """Move every weight towards zero by ``step`` and stop there: the exact proximal step."""
        for _, p, amount in trainable(self._selected(), step):
            p.copy_(p.abs().sub_(amount).clamp_min_(0).copysign_(p))

    def _selected(self) -> dict[str, Tensor]:
        return select(self.groups, self.patterns, self.biases)
