"""Sums of products: the operator in which components are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leanrnn.discovery.labels import Flags, Value
from leanrnn.discovery.ties import Product, Ties
from leanrnn.discovery.unify import unify

__all__ = ["contract"]


def contract(
    ties: Ties,
    operands: Sequence[tuple[Value, str]],
    out: str,
    shape: Sequence[int],
    weights: Sequence[bool],
    often: int = 1,
) -> Value:
    """A sum of products in einsum's letters: shared letters are tied, letters not in ``out`` are summed over.

    ``weights`` says which operands are made of parameters alone: along a summed axis they are readers. ``often`` is how
    often the product is taken, for every place of a window in a convolution.
    """
    letters = out + "".join(sorted({c for _, names in operands for c in names} - set(out)))
    sizes = {c: n for value, names in operands for c, n in zip(names, value.shape, strict=True)}
    space = [sizes[c] for c in letters]
    moved = []
    for value, names in operands:
        to = {a: letters.index(c) for a, c in enumerate(names)}
        moved.append(Value(tuple(space), tuple(f.moved(to) for f in value.factors), value.zero))
    summed = {i for i, c in enumerate(letters) if c not in out}
    for value, is_weight in zip(moved, weights, strict=True):
        for factor in value.factors:
            if is_weight and factor.main & summed:
                ties.readers.append(factor.labels.reshape(-1))
                ties.reads.append(factor.labels.reshape(-1))
    merged = unify(ties, moved, space, lambda flags: _most(flags))
    ties.products.append(Product(ties.here, often, tuple(space), merged))
    factors = []
    for factor in merged:
        if factor.main & summed and factor.main - summed:
            ties.split = True
        if factor.main & summed and factor.main - summed and ties.heads:
            whole = ties.collapse(factor, [a for a in factor.axes if a in summed])
            factors += [whole] if whole is not None else []
            continue
        if factor.main & summed:
            reason = "is summed over with what is not zero when the component is"
            ties.need_zero(factor.labels, factor.zero, reason)
            ties.collapse(factor, [a for a in factor.axes if a not in summed])
            continue
        chosen = [a for a in factor.axes if a in summed]
        left = ties.collapse(factor, chosen) if chosen else factor
        if left is not None:
            factors.append(left)
    return Value(tuple(shape), tuple(factors), any(v.zero for v, _ in operands))


def _most(flags: list[Flags]) -> Flags:
    top = flags[0]
    for other in flags[1:]:
        top = np.maximum(top, other)
    return top
