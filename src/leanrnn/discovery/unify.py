"""Labels of operands that meet index by index: in a sum, in a gate times a state, along a summed axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

from leanrnn.discovery.labels import Factor, Flags, Value, expand_to, simplify
from leanrnn.discovery.ties import Ties

__all__ = ["Combine", "unify"]

Combine = Callable[[list[Flags]], Flags]


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
        if matched := _in_order_of(owners, factors):
            for row, factor in zip(rows, matched, strict=True):
                row[i] = factor
        elif len(factors) == 1 and len(near := [k for k, o in enumerate(owners) if o.main & factors[0].main]) == 1:
            rows[near[0]][i] = factors[0]
        elif len(factors) == 1:
            derived[i] = factors[0]
            if (free := _follow(ties, owners, factors[0], shape)) is not None:
                rows[0][i] = free
        else:
            for factor in (*factors, *owners):
                ties.pin(factor.labels, "two flattened products of widths meet in different orders")
    tied = [_tie_row(ties, row, derived, values, shape, combine) for row in rows if row]
    return [factor for factor in tied if factor is not None]


def _follow(ties: Ties, owners: Sequence[Factor], factor: Factor, shape: Sequence[int]) -> Factor | None:
    """One operand is a flattened product of widths, the other (the columns of a weight) has a label per pair.

    These follow all of the widths; tied to them, they would tie every index of one to every index of the other.
    What lies next to a constant follows nothing: that part is returned, for the first of the widths.
    """
    axes = sorted({*factor.axes, *(axis for owner in owners for axis in owner.axes)})
    sizes = [shape[a] for a in axes]
    mine = expand_to(factor, axes, sizes)[0]
    spread = [expand_to(owner, axes, sizes)[0] for owner in owners]
    stays = [ties.stays(labels) for labels in spread]
    for labels, fixed in zip(spread, stays, strict=True):
        ties.imply(np.where(fixed, -1, labels), mine)
    # Where none of the widths can lose anything, the pairs stay.
    ties.tie(np.where(np.logical_and.reduce(stays), spread[0], -1), mine)
    others = np.logical_and.reduce([fixed | (labels < 0) for fixed, labels in zip(stays, spread, strict=True)])
    free = np.where(others & (spread[0] < 0), mine, -1)
    alone = tuple(axes) == owners[0].axes == factor.axes and (free >= 0).any()
    return Factor(factor.axes, free, factor.zero, factor.main) if alone else None


def _in_order_of(owners: Sequence[Factor], factors: Sequence[Factor]) -> Sequence[Factor] | None:
    """The factors, each at the place of the owner that it repeats like; nothing if they do not fit."""
    if len(factors) != len(owners):
        return None
    orders = permutations(factors) if len(factors) < 4 else [tuple(factors)]
    return next((o for o in orders if all(_alike(a, b) for a, b in zip(owners, o, strict=True))), None)


def _alike(a: Factor, b: Factor) -> bool:
    """Whether two factors of a flattened product repeat in the same pattern (always, for plain factors), or one of them
    has several patterns of the other: gates of heads laid side by side, each with labels of its own or all alike."""
    if a is b or a.labels.ndim > 1 or b.labels.ndim > 1 or a.labels.shape != b.labels.shape:
        return True
    pairs = len(np.unique(np.stack([a.labels, b.labels]), axis=1)[0])
    return pairs == max(len(np.unique(a.labels)), len(np.unique(b.labels)))


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
