"""Operators that lay tensors side by side, and writes into views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Factor, Labels, Value, put
from leanrnn.discovery.rules.base import Call, fixed, rule, write_of
from leanrnn.discovery.rules.kinds import Kind

__all__ = ["scatter", "widened", "write_at"]


@rule("aten.cat", soft=True, kind=Kind.JOIN)
def _cat(call: Call) -> Value:
    values = [v for v in call["tensors"] if not (v.ndim == 1 and v.shape[0] == 0 and len(call.shape) > 1)]
    return _join(call, values, values[0].axis(call.get("dim", 0)), call.shape)


@rule("aten.stack", "aten._stack", soft=True, kind=Kind.JOIN)
def _stack(call: Call) -> Value:
    values: list[Value] = list(call["tensors"])
    dim = call.get("dim", 0)
    dim = dim + values[0].ndim + 1 if dim < 0 else dim
    wide = []
    for value in values:
        to = {a: a + (a >= dim) for a in range(value.ndim)}
        shape = (*value.shape[:dim], 1, *value.shape[dim:])
        wide.append(Value(shape, tuple(f.moved(to) for f in value.factors), value.zero))
    return _join(call, wide, dim, call.shape)


def _join(call: Call, values: Sequence[Value], dim: int, shape: tuple[int, ...]) -> Value:
    """Lay values one after the other along ``dim``. Torch's own recurrent code may stack unequal widths; nobody
    else can."""
    result = Value(shape, (), True)
    start = 0
    for value in values:
        result = _put(call, result, value, dim, np.arange(start, start + value.shape[dim]), call.fused)
        start += value.shape[dim]
    result = replace(result, zero=all(v.zero for v in values))
    return _seam(call, result, dim) if any(v.factors for v in values) else result


def _seam(call: Call, value: Value, dim: int) -> Value:
    """An axis along which tensors lie side by side is not alike at every index: its length stays.

    One label stands for all indices: none of them has a meaning of its own.
    """
    if value.shape[dim] < 2 or any(dim in (f.axes if call.fused else f.main) for f in value.factors):
        return value
    label = call.ties.fresh(1, f"is an axis along which {call.name} lays tensors side by side")
    return replace(value, factors=(*value.factors, Factor.on(dim, label.repeat(value.shape[dim]))))


def _put(call: Call, base: Value, part: Value, dim: int, index: Labels, soft: bool) -> Value:
    """``base`` with ``part`` written at ``index`` along ``dim``."""
    if len(index) == base.shape[dim]:
        return part
    pairs = _pair(call, list(base.factors), list(part.factors))
    factors = []
    for old, new in pairs:
        rest = 2 if (base.zero if old is None else part.zero) else 0
        joined = put(old, new, dim, index, base.shape, rest)
        if joined is not None and not soft and dim in joined.axes and dim not in joined.main:
            joined = _one_width(call, joined, dim)
        if joined is not None:
            factors.append(joined)
    return Value(base.shape, tuple(factors), base.zero and part.zero)


def _one_width(call: Call, factor: Factor, dim: int) -> Factor | None:
    """Tie what lies along ``dim``; which of it is zero is remembered for whoever chooses one again."""
    tied = call.ties.collapse(factor, [dim])
    axis = factor.axes.index(dim)
    if tied is None or len({row.tobytes() for row in np.moveaxis(factor.zero, axis, 0)}) == 1:
        return tied
    top = factor.labels.max(axis=axis, keepdims=True)
    return replace(factor, labels=np.broadcast_to(top, factor.labels.shape))


def write_at(call: Call, base: Value, part: Value, dim: int, index: Labels) -> Value:
    """A write into some indices of an axis."""
    result = _put(call, base, part, dim, index, False)
    return _seam(call, result, dim) if base.factors or part.factors else result


def _pair(call: Call, old: list[Factor], new: list[Factor]) -> list[tuple[Factor | None, Factor | None]]:
    """Match the factors of two tensors that lie on the same axes."""
    pairs: list[tuple[Factor | None, Factor | None]] = []
    for factor in old:
        match = next((f for f in new if f.main & factor.main), None)
        if match is not None:
            new.remove(match)
        pairs.append((factor, match))
    return pairs + [(None, f) for f in new]


@rule("aten.slice_scatter")
def _slice_scatter(call: Call) -> Value:
    base: Value = call["self"]
    dim = base.axis(call["dim"])
    index = np.arange(base.shape[dim])[slice(call["start"], call["end"], call["step"])]
    return write_at(call, base, call["src"], dim, index)


@rule("aten.select_scatter")
def _select_scatter(call: Call) -> Value:
    base: Value = call["self"]
    dim = base.axis(call["dim"])
    return write_at(call, base, widened(call["src"], dim), dim, np.array([int(call["index"]) % base.shape[dim]]))


def widened(value: Value, dim: int) -> Value:
    """The value with a new axis of size one."""
    to = {a: a + (a >= dim) for a in range(value.ndim)}
    shape = (*value.shape[:dim], 1, *value.shape[dim:])
    return Value(shape, tuple(f.moved(to) for f in value.factors), value.zero)


def scatter(call: Call, part: Value, index: int) -> Value:
    """``self`` after ``part`` was written into result ``index`` of the view operator of ``call``."""
    base: Value = call["self"]
    write = write_of(call.op)
    if write is not None:
        return write(call, base, part, index)
    for value in (base, part):
        call.ties.pin_value(value, range(value.ndim), f"is written through {call.name}, a view without a rule")
    return Value(
        base.shape, tuple(fixed(call.ties, base.shape, a, "is written through a view") for a in range(base.ndim))
    )
