"""Ties: what the operators of a tape say about labels, collected as arrays.

Two labels are **tied** when neither index can leave without the other. A label is **fixed** when its index cannot leave
at all, **pinned** when an operator found later says so. Label a **implies** label b when b leaves with a but not the
other way round (a flattened product of two widths).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.discovery.labels import Factor, Flags, Labels, Value, simplify

__all__ = ["Product", "Ties", "across", "harden"]


@dataclass(frozen=True, eq=False)
class Product:
    """One sum of products: as many multiplications as its axes have indices together, so often."""

    here: int
    often: int
    sizes: tuple[int, ...]
    """Of all axes, summed over or not."""
    factors: tuple[Factor, ...]
    """Their labels; an axis without is as long whatever leaves."""


@dataclass
class Ties:
    """Everything collected in one pass; ``here`` is the operator being read and tags what it says."""

    heads: bool = False
    """Whether whole heads leave, where a split axis is summed over along one of its parts, and not places in them."""
    split: bool = False
    """Whether there was such a sum."""
    here: int = -1
    count: int = 0
    tied: list[tuple[Labels, Labels, int]] = field(default_factory=list)
    pins: list[tuple[Labels, str, int]] = field(default_factory=list)
    needs: list[Labels] = field(default_factory=list)
    readers: list[Labels] = field(default_factory=list)
    reads: list[Labels] = field(default_factory=list)
    """What weights read in the operator at hand: labels along the summed axes; the caller empties it."""
    carried: list[Labels] = field(default_factory=list)
    """Whose size does not matter, only its direction."""
    divisors: list[Labels] = field(default_factory=list)
    """What an operator does not take as zero."""
    implied: list[tuple[Labels, Labels, int]] = field(default_factory=list)
    blocks: list[Labels] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    """Every product of matrices, for what it costs."""
    _fixed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1024, np.bool_))

    def said(self) -> list[list[Any]]:
        """All that decides what can leave; what products cost does not."""
        return [self.tied, self.pins, self.needs, self.readers, self.reads, self.carried, self.divisors, self.implied,
                self.blocks]  # fmt: skip

    def fresh(self, size: int, reason: str | None = None) -> Labels:
        """New labels; with a ``reason`` they are fixed."""
        labels = np.arange(self.count, self.count + size, dtype=np.int64)
        self.count += size
        while self.count > len(self._fixed):
            self._fixed = np.concatenate([self._fixed, np.zeros_like(self._fixed)])
        if reason is not None:
            self._fixed[labels] = True
            self.pins.append((labels, reason, -1))
        return labels

    def loose(self, labels: Labels) -> bool:
        """Whether any of the labels could still leave."""
        known = labels[labels >= 0]
        return bool(known.size) and not bool(self._fixed[known].all())

    def stays(self, labels: Labels) -> NDArray[np.bool_]:
        """Which of the labels are fixed; that of a constant is not."""
        return (labels >= 0) & self._fixed[labels]

    def tie(self, a: Labels, b: Labels) -> None:
        """Tie labels pairwise; arrays broadcast."""
        if a is b or (a.shape == b.shape and np.array_equal(a, b)):
            return
        a, b = np.broadcast_arrays(a, b)
        # -1 is a constant, which is as wide as what it meets.
        use = (a >= 0) & (b >= 0) & (a != b)
        if use.any():
            self.tied.append((a[use], b[use], self.here))

    def pin(self, labels: Labels, reason: str) -> None:
        """These labels cannot leave; ``reason`` is for the user."""
        known = np.unique(labels[labels >= 0])
        # A fixed label has had its reason since it was made; a long loop would add one a step.
        known = known[~self._fixed[known]]
        if known.size:
            self.pins.append((known, reason, self.here))

    def pin_value(self, value: Value, axes: Sequence[int], reason: str) -> None:
        """Pin what could leave along ``axes`` of ``value``."""
        for factor in value.factors:
            if factor.main & set(axes):
                self.pin(factor.labels, reason)

    def need_zero(self, labels: Labels, zero: Flags, reason: str) -> None:
        """The sum over these indices is only unchanged if what leaves is zero."""
        # sigmoid(0) is a half, and would be missed in a sum: pinned. A hidden unit whose gate rows are zero still has
        # its bias: it may leave once that is zero too. At flag 2 the weights alone make it zero: nothing is asked.
        self.pin(labels[zero == 0], reason)
        if (zero == 1).any():
            self.needs.append(np.unique(labels[(zero == 1) & (labels >= 0)]))

    def imply(self, owner: Labels, derived: Labels) -> None:
        """``derived`` leaves with ``owner``; arrays broadcast."""
        # The outer product of a (3 wide) and b (4 wide), flattened, has 12 indices. Index 4i+j leaves when a loses i,
        # and also when b loses j. A tie would say the reverse as well, and make one width of a and b.
        owner, derived = np.broadcast_arrays(owner, derived)
        use = (owner >= 0) & (derived >= 0)
        self.implied.append((owner[use], derived[use], self.here))

    def collapse(self, factor: Factor, axes: Sequence[int]) -> Factor | None:
        """Tie all indices along ``axes`` of a factor to each other and drop these axes."""
        left = tuple(a for a in factor.axes if a not in axes)
        gone = tuple(i for i, a in enumerate(factor.axes) if a in axes)
        # Any of the tied labels could stand for all; the highest is never the -1 of a constant among them.
        top = factor.labels.max(axis=gone, keepdims=True)
        self.tie(top, factor.labels)
        if not left or not factor.main & set(left):
            return None
        # What is left is zero only where each of the tied places is.
        zero = factor.zero.min(axis=gone)
        return simplify(Factor(left, top.squeeze(gone), zero, factor.main & set(left)))


def harden(ties: Ties, value: Value) -> Value:
    """Tie the parts of a stacked tensor: the operator that follows needs it as one block."""
    # A factor is soft while some of its axes only choose. h_n of two layers has shape (2, H) and labels 0..H-1 in its
    # first row, H..2H-1 in its second: the first axis chooses a layer. h_n[1] takes one row, and no layer is tied to
    # the other. h_n.sum(0) adds the rows, so index k has to leave both: only then 0 ~ H, 1 ~ H+1 and so on.
    if all(set(f.axes) == f.main for f in value.factors):
        return value
    factors = []
    for factor in value.factors:
        chosen = [a for a in factor.axes if a not in factor.main]
        hard = ties.collapse(factor, chosen) if chosen else factor
        if hard is not None:
            factors.append(hard)
    return Value(value.shape, tuple(factors), value.zero)


def across(ties: Ties, value: Value, axes: Sequence[int]) -> Value:
    """An operator along ``axes`` sees only one part of a split axis: the other part carries on."""
    # view(..., 4, H), then a softmax over the four: it compares all four at each k, so they leave together, and H
    # still carries components. Along every axis that carries them there is nothing left to say: that is the rule's.
    factors = []
    for factor in value.factors:
        part = factor.main & set(axes)
        whole = ties.collapse(factor, sorted(part)) if part and part != factor.main else factor
        if whole is not None:
            factors.append(whole)
    return Value(value.shape, tuple(factors), value.zero, value.dtype)
