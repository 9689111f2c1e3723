"""Labels: one integer per index of an axis, and how they move when a tensor is reshaped, sliced or joined.

A tensor's labels are a few **factors**. A factor lies on one axis and names each of its indices, or on several: after
``view(..., 4, H)`` the block ``(4, H)`` keeps one label per pair, because nothing has said yet which of the two axes
carries the components. ``main`` are the axes along which an index can leave; any other axis of a factor only chooses
(layer ``l`` of a stacked ``h_n``). Label ``-1`` is an index that looks like any other: a constant, which ties nothing.

``zero`` says of each index whether the tensor is zero there once the component is: 2 when its weights are zero, 1 when
its biases are zero as well, 0 never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Factor", "Value", "broadcast", "expand_to", "permute", "put", "reshape", "simplify", "take"]

Labels = NDArray[np.int64]
Flags = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Factor:
    """Labels of the indices along ``axes`` (ascending); ``labels`` and ``zero`` have one dimension per axis."""

    axes: tuple[int, ...]
    labels: Labels
    zero: Flags
    main: frozenset[int]

    @staticmethod
    def on(axis: int, labels: Labels, zero: int = 0) -> Factor:
        """A factor on one axis."""
        return Factor((axis,), labels, np.full(labels.shape, zero, np.int8), frozenset((axis,)))

    def moved(self, axes: dict[int, int]) -> Factor:
        """The same factor with its axes renumbered."""
        new = [axes[a] for a in self.axes]
        order = np.argsort(new)
        return Factor(
            tuple(sorted(new)),
            self.labels.transpose(order),
            self.zero.transpose(order),
            frozenset(axes[a] for a in self.main),
        )


@dataclass(frozen=True, eq=False)
class Value:
    """What is known of one tensor: its shape, its labels, and whether it is zero throughout."""

    shape: tuple[int, ...]
    factors: tuple[Factor, ...] = ()
    zero: bool = False
    dtype: torch.dtype | None = None
    numbers: Labels | None = None
    """What is in it, for a tensor of positions that the code made of nothing."""

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def axis(self, axis: int) -> int:
        """``axis`` counted from the front."""
        return axis + self.ndim if axis < 0 else axis

    def on(self, axis: int) -> list[Factor]:
        """Factors along whose ``axis`` an index can leave."""
        return [f for f in self.factors if axis in f.main]


def simplify(factor: Factor) -> Factor | None:
    """Drop axes along which all labels agree; ``None`` when nothing is labelled."""
    axes, labels, zero, main = list(factor.axes), factor.labels, factor.zero, set(factor.main)
    if not (labels >= 0).any():
        return None
    for axis in list(axes):
        if len(axes) == 1 or main == {axis}:
            continue
        i = axes.index(axis)
        top = labels.max(axis=i, keepdims=True)
        # A choice keeps its axis where it tells what is zero from what is not: states of all kinds in one stack.
        told = axis in main or bool((zero == zero.min(axis=i, keepdims=True)).all())
        if told and bool(((labels == top) | (labels < 0)).all()):
            labels, zero = top.squeeze(i), zero.min(axis=i)
            axes.pop(i)
            main.discard(axis)
    return Factor(tuple(axes), labels, zero, frozenset(main))


def expand_to(factor: Factor, axes: Sequence[int], sizes: Sequence[int]) -> tuple[Labels, Flags]:
    """Labels and zero flags of ``factor`` spread over ``axes`` (ascending, a superset of its own)."""
    index = tuple(slice(None) if a in factor.axes else None for a in axes)
    return np.broadcast_to(factor.labels[index], sizes), np.broadcast_to(factor.zero[index], sizes)


def _present(factors: Sequence[Factor | None]) -> tuple[Factor, ...]:
    return tuple(f for f in factors if f is not None)


def permute(value: Value, order: Sequence[int]) -> Value:
    """``value.permute(order)``."""
    order = [value.axis(a) for a in order]
    to = {old: new for new, old in enumerate(order)}
    return replace(value, shape=tuple(value.shape[a] for a in order), factors=tuple(f.moved(to) for f in value.factors))


def broadcast(value: Value, shape: Sequence[int]) -> Value:
    """``value.expand(shape)``: a new or stretched axis looks the same at every index."""
    offset = len(shape) - value.ndim
    factors = []
    for factor in value.factors:
        stretched = [a for a in factor.axes if shape[a + offset] != value.shape[a]]
        if not stretched:
            factors.append(factor.moved({a: a + offset for a in factor.axes}))
        elif not factor.main <= set(stretched):
            index = tuple(0 if a in stretched else slice(None) for a in factor.axes)
            left = tuple(a for a in factor.axes if a not in stretched)
            small = Factor(left, factor.labels[index], factor.zero[index], factor.main & set(left))
            factors.append(small.moved({a: a + offset for a in left}))
    return replace(value, shape=tuple(shape), factors=tuple(factors))


def take(value: Value, axis: int, index: int | slice | Labels) -> Value:
    """``value`` at ``index`` along ``axis``; an integer removes the axis."""
    size = 1 if isinstance(index, int) else len(np.arange(value.shape[axis])[index])
    to = {a: a - (isinstance(index, int) and a > axis) for a in range(value.ndim)}
    shape = [size if a == axis else n for a, n in enumerate(value.shape) if a != axis or not isinstance(index, int)]
    factors: list[Factor | None] = []
    for factor in value.factors:
        if axis not in factor.axes:
            factors.append(factor.moved(to))
            continue
        at = tuple(index if a == axis else slice(None) for a in factor.axes)
        if isinstance(index, int):
            left = tuple(a for a in factor.axes if a != axis)
            if not factor.main - {axis}:
                continue
            cut = Factor(left, factor.labels[at], factor.zero[at], factor.main - {axis})
        else:
            cut = replace(factor, labels=factor.labels[at], zero=factor.zero[at])
        factors.append(simplify(cut.moved(to)))
    return replace(value, shape=tuple(shape), factors=_present(factors))


def reshape(value: Value, shape: Sequence[int]) -> Value:
    """``value.reshape(shape)``: every block of old axes becomes the block of new axes with the same elements."""
    blocks = _blocks(value.shape, shape)
    factors: list[Factor | None] = list(value.factors)
    for old, new in blocks:
        if len(old) == len(new) == 1:
            continue
        if any(value.shape[a] > 1 for a in old):
            # An axis of length one adds nothing to what it is merged with, and can lose nothing.
            ones = {a for a in old if value.shape[a] == 1}
            factors = [f for f in factors if f is None or not f.main <= ones]
        for i, factor in enumerate(factors):
            if factor is not None and set(old) & set(factor.axes):
                factors[i] = _reshape_block(factor, value.shape, old)
    final = []
    for factor in factors:
        if factor is not None:
            final.append(_renumber(factor, blocks, shape))
    return replace(value, shape=tuple(shape), factors=_present(final))


def _reshape_block(factor: Factor, shape: Sequence[int], old: Sequence[int]) -> Factor:
    """Spread a factor over all axes of a block, so that the block can be reshaped as one."""
    axes = tuple(sorted({*factor.axes, *old}))
    labels, zero = expand_to(factor, axes, [shape[a] for a in axes])
    main = factor.main | set(old) if factor.main & set(old) else factor.main
    return Factor(axes, labels, zero, frozenset(main))


def _renumber(factor: Factor, blocks: Sequence[tuple[list[int], list[int]]], shape: Sequence[int]) -> Factor | None:
    axes: list[int] = []
    main: set[int] = set()
    for old, new in blocks:
        if set(old) & set(factor.axes):
            axes += new
            main |= set(new) if set(old) & factor.main else set()
    sizes = [shape[a] for a in axes]
    wide = Factor(tuple(axes), factor.labels.reshape(sizes), factor.zero.reshape(sizes), frozenset(main))
    return simplify(wide)


def _blocks(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Match runs of old axes with runs of new axes that hold the same elements."""
    blocks: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        a, b = (old[i] if left else 1), (new[j] if right else 1)
        i, j = i + len(left), j + len(right)
        while a != b:
            if (a < b or j >= len(new)) and i < len(old):
                left.append(i)
                a, i = a * old[i], i + 1
            else:
                right.append(j)
                b, j = b * new[j], j + 1
        blocks.append((left, right))
    # An axis of size one has no partner: it joins its neighbour, so that no block is empty on one side only.
    merged: list[tuple[list[int], list[int]]] = []
    for left, right in blocks:
        if merged and (not left or not right):
            merged[-1] = (merged[-1][0] + left, merged[-1][1] + right)
        else:
            merged.append((left, right))
    if len(merged) > 1 and (not merged[0][0] or not merged[0][1]):
        (a0, b0), (a1, b1) = merged[0], merged[1]
        merged[:2] = [(a0 + a1, b0 + b1)]
    return merged


def put(
    base: Factor | None, part: Factor | None, axis: int, index: Labels, shape: Sequence[int], rest: int
) -> Factor | None:
    """``base`` with ``part`` written at ``index`` along ``axis``; where neither has labels, ``rest`` is the zero
    flag."""
    axes = sorted({axis, *(base.axes if base else ()), *(part.axes if part else ())})
    sizes = [shape[a] for a in axes]
    labels, zero = np.full(sizes, -1, np.int64), np.full(sizes, rest, np.int8)
    if base is not None:
        wide = expand_to(base, axes, sizes)
        labels[...], zero[...] = wide
    at = tuple(index if a == axis else slice(None) for a in axes)
    if part is None:
        labels[at], zero[at] = -1, rest
    else:
        sizes[axes.index(axis)] = len(index)
        labels[at], zero[at] = expand_to(part, axes, sizes)
    main = (base.main if base else frozenset()) | (part.main if part else frozenset())
    return simplify(Factor(tuple(axes), labels, zero, main))
