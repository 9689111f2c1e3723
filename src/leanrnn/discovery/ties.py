"""Ties: what the operators of a tape say about labels, collected as arrays.

Two labels are **tied** when neither index can leave without the other. A label is **fixed** when its index cannot leave
at all, **pinned** when an operator found later says so. Label a **implies** label b when b leaves with a but not the
other way round (a flattened product of two widths).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.discovery.labels import Factor, Flags, Labels, Value, expand_to, simplify

__all__ = ["Product", "Ties", "across", "harden", "unify"]

Combine = Callable[[list[Flags]], Flags]


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


def unify(ties: Ties, values: Sequence[Value], shape: Sequence[int], combine: Combine) -> tuple[Factor, ...]:
    """Tie the labels of operands that meet index by index, all already in the axes of ``shape``.

    ``combine`` makes the zero flags of the result from those of the operands.
    """
    members = [(i, f) for i, value in enumerate(values) for f in value.factors]
    found: list[Factor] = []
    while members:
        # Only what lies on a common axis meets: hidden with hidden, never hidden with batch. A block over two axes
        # joins what lies on either, so the search goes on until nothing new is near.
        cluster, grown = [members.pop(0)], True
        while grown:
            main = frozenset().union(*(f.main for _, f in cluster))
            near = [m for m in members if m[1].main & main]
            members = [m for m in members if not m[1].main & main]
            cluster, grown = cluster + near, bool(near)
        found += _unify_cluster(ties, cluster, values, shape, combine)
    return tuple(found)


def _unify_cluster(
    ties: Ties, cluster: list[tuple[int, Factor]], values: Sequence[Value], shape: Sequence[int], combine: Combine
) -> list[Factor]:
    by_operand: dict[int, list[Factor]] = {}
    for i, factor in cluster:
        by_operand.setdefault(i, []).append(factor)
    most = max(len(fs) for fs in by_operand.values())
    owners = next(fs for fs in by_operand.values() if len(fs) == most)
    rows: list[dict[int, Factor]] = [{} for _ in range(most)]
    derived: dict[int, Factor] = {}
    for i, factors in by_operand.items():
        if len(factors) == most and all(_alike(a, b) for a, b in zip(owners, factors, strict=True)):
            for row, factor in zip(rows, factors, strict=True):
                row[i] = factor
        elif len(factors) == 1:
            # One operand is a flattened product of widths, the other (the columns of a weight) has a label per pair.
            # These follow both widths; tied to both, they would tie every index of one to every index of the other.
            derived[i] = factors[0]
            for owner in owners:
                axes = sorted({*owner.axes, *factors[0].axes})
                sizes = [shape[a] for a in axes]
                ties.imply(expand_to(owner, axes, sizes)[0], expand_to(factors[0], axes, sizes)[0])
        else:
            for factor in (*factors, *owners):
                ties.pin(factor.labels, "two flattened products of widths meet in different orders")
    tied = [_tie_row(ties, row, derived, values, shape, combine) for row in rows if row]
    return [factor for factor in tied if factor is not None]


def _alike(a: Factor, b: Factor) -> bool:
    """Whether two factors of a flattened product repeat in the same pattern (always, for plain factors)."""
    if a is b or a.labels.ndim > 1 or b.labels.ndim > 1 or a.labels.shape != b.labels.shape:
        return True
    if np.array_equal(a.labels, b.labels):
        return True
    return np.array_equal(_pattern(a.labels), _pattern(b.labels)) or _distinct(a.labels) or _distinct(b.labels)


def _distinct(labels: Labels) -> bool:
    return len(np.unique(labels)) == len(labels)


def _pattern(labels: Labels) -> Labels:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return first[inverse]


def _tie_row(
    ties: Ties,
    row: dict[int, Factor],
    derived: dict[int, Factor],
    values: Sequence[Value],
    shape: Sequence[int],
    combine: Combine,
) -> Factor | None:
    """Tie one factor per operand; ``derived`` ones leave along, so their zeros count, but are not tied."""
    factors = list(row.values())
    axes = sorted(set().union(*(f.axes for f in (*factors, *derived.values()))))
    common = sorted(set(factors[0].axes).intersection(*(f.axes for f in factors)))
    # Operands that share no axis make a block of pairs, as in gate[:, None] * time[None, :].
    if not common:
        common = axes
    sizes = [shape[a] for a in axes]
    wide = {i: expand_to(f, axes, sizes) for i, f in row.items()}
    labels = next(iter(wide.values()))[0]
    for other, _ in list(wide.values())[1:]:
        ties.tie(labels, other)
        labels = np.where(labels >= 0, labels, other)
    # An operand without labels is a constant: whether it is zero does not depend on what leaves.
    none = {True: np.full((), 2, np.int8), False: np.zeros((), np.int8)}
    spread = {i: wide[i][1] for i in wide} | {i: expand_to(f, axes, sizes)[1] for i, f in derived.items()}
    flags = combine([spread[i] if i in spread else none[v.zero] for i, v in enumerate(values)])
    gone = tuple(i for i, a in enumerate(axes) if a not in common)
    zero = np.broadcast_to(flags, sizes)
    if gone:
        labels, zero = labels.max(axis=gone), zero.min(axis=gone)
    main = frozenset().union(*(f.main for f in factors)) & set(common)
    return simplify(Factor(tuple(common), labels, zero, frozenset(main)))
