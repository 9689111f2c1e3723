"""Least squares: what leaves is told from what stays, as well as it can be, in everything that reads it.

If a weight reads the numbers ``x``, and those that leave are ``A`` times those that stay plus something that cannot be
told, then the columns that stay take over ``A``. What is left of the error is known without trying: it is what each
component would cost, with the others standing in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leanrnn.groups.groups import Indices

__all__ = ["Reader", "errors", "stand_in"]

DAMPING = 1e-4
"""Of the mean square of what is read, added to all squares: few readings say little of many numbers."""


@dataclass
class Reader:
    """A weight as it is multiplied, and which of what it reads belongs to the components of one layer."""

    gram: Tensor
    """Products of its columns with each other, every row weighted by what the result feels of it."""
    inverse: Tensor
    """Of the second moments of what it reads."""
    positions: Tensor
    components: Tensor

    def errors(self, width: int) -> Tensor:
        """By component, the square of what the result would feel if it left and the others stood in for it."""
        each = self.gram.diagonal() / self.inverse.diagonal()
        return each.new_zeros(width).index_add_(0, self.components, each[self.positions])

    def leave_(self, component: int) -> None:
        """Let the others stand in for it."""
        for p in self.positions[self.components == component].tolist():
            share = self.inverse[p] / self.inverse[p, p]
            self.inverse -= torch.outer(self.inverse[:, p], share)
            column = self.gram[:, p].clone()
            self.gram += torch.outer(share, share) * column[p] - torch.outer(column, share) - torch.outer(share, column)
            # Nothing is left of it, whatever rounding says.
            for matrix in (self.inverse, self.gram):
                matrix[p], matrix[:, p] = 0, 0
            self.inverse[p, p] = 1


def errors(width: int, readers: Sequence[Reader]) -> Tensor:
    """What every component of a layer costs when its turn comes, if they leave one by one, the cheapest first; never
    less than that of one that left before. The readers are used up. ::

        errors(2, [Reader(torch.eye(2), torch.eye(2), torch.arange(2), torch.arange(2))])  # tensor([1., 1.])
    """
    found = torch.zeros(width, dtype=torch.float64)
    there, least = torch.ones(width, dtype=torch.bool), 0.0
    for _ in range(width):
        now = torch.stack([reader.errors(width) for reader in readers]).sum(0)
        k = int(now.masked_fill(~there, torch.inf).argmin())
        least = max(least, float(now[k]))
        found[k], there[k] = least, False
        for reader in readers:
            reader.leave_(k)
    return found


def stand_in(moments: Tensor, stays: Indices, leaves: Indices) -> Tensor:
    """How what leaves is told from what stays, a column for each that leaves: the least squares solution."""
    told: Tensor = torch.linalg.solve(damped(moments)[stays][:, stays], moments[stays][:, leaves])
    return told


def damped(moments: Tensor) -> Tensor:
    """Second moments that can be inverted; the one among them is never zero."""
    return moments + DAMPING * moments.diagonal().mean() * torch.eye(len(moments), dtype=moments.dtype)
