"""Operators that move labels: views, copies, repeats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Value, broadcast, permute, reshape, take
from leanrnn.discovery.rules.base import Call, axes_of, fixed, fixed_axes, pin_axes, rule, written
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.pointwise import pin_stretched
from leanrnn.discovery.ties import harden


@rule("aten.view", "aten._unsafe_view", "aten._reshape_alias", "aten._reshape_copy", kind=Kind.MOVE, soft=True)
def _view(call: Call) -> Value:
    value: Value = call["self"]
    if value.ndim == len(call.shape) and value.shape == tuple(call.shape):
        return value
    result = reshape(harden(call.ties, value), call.shape)
    return _note_blocks(call, _drop_partners(call, result))


@written("aten.view", "aten._unsafe_view", "aten._reshape_alias", "aten.unsqueeze", "aten.squeeze")
def _write_reshaped(call: Call, base: Value, part: Value, index: int) -> Value:
    return reshape(part, base.shape)


@rule("aten.view.dtype", kind=Kind.MOVE)
def _view_dtype(call: Call) -> Value:
    """Bits read as another type: where that has another size, the last axis is cut up anew."""
    value: Value = call["self"]
    if value.shape == tuple(call.shape) or not value.factors:
        return value
    last, reason = value.ndim - 1, "is read as numbers of another size"
    spared = pin_axes(call, value, [last], reason)
    return replace(spared, factors=(*spared.factors, fixed(call.ties, call.shape, last, reason)))


def _drop_partners(call: Call, value: Value) -> Value:
    """On an axis flattened from a fixed one (time) and one that can shrink (hidden), only the latter matters."""
    loose = {a for f in value.factors if call.ties.loose(f.labels) for a in f.main}
    factors = tuple(f for f in value.factors if call.ties.loose(f.labels) or not f.main & loose)
    return replace(value, factors=factors)


def _note_blocks(call: Call, value: Value) -> Value:
    """A split axis must stay rectangular: note the block, it is decided when all ties are known."""
    for factor in value.factors:
        if len(factor.main) > 1 and call.ties.loose(factor.labels):
            order = [i for i, a in enumerate(factor.axes) if a in factor.main]
            rest = [i for i in range(factor.labels.ndim) if i not in order]
            call.ties.blocks.append(factor.labels.transpose(order + rest))
    return value


@rule("aten.t", kind=Kind.MOVE)
def _t(call: Call) -> Value:
    value: Value = call["self"]
    return permute(value, [1, 0]) if value.ndim == 2 else value


@written("aten.t")
def _write_t(call: Call, base: Value, part: Value, index: int) -> Value:
    return permute(part, [1, 0]) if base.ndim == 2 else part


@rule("aten.transpose", kind=Kind.MOVE)
def _transpose(call: Call) -> Value:
    value: Value = call["self"]
    return permute(value, _swapped(value, call["dim0"], call["dim1"]))


@written("aten.transpose")
def _write_transposed(call: Call, base: Value, part: Value, index: int) -> Value:
    return permute(part, _swapped(base, call["dim0"], call["dim1"]))


def _swapped(value: Value, dim0: int, dim1: int) -> list[int]:
    order = list(range(value.ndim))
    if order:
        a, b = value.axis(dim0), value.axis(dim1)
        order[a], order[b] = order[b], order[a]
    return order


@rule("aten.permute", kind=Kind.MOVE)
def _permute(call: Call) -> Value:
    return permute(call["self"], call["dims"])


@written("aten.permute")
def _write_permuted(call: Call, base: Value, part: Value, index: int) -> Value:
    return permute(part, np.argsort([base.axis(d) for d in call["dims"]]).tolist())


@rule("aten.expand", kind=Kind.MOVE)
def _expand(call: Call) -> Value:
    return broadcast(call["self"], call.shape)


@rule("aten.unsqueeze", kind=Kind.MOVE)
def _unsqueeze(call: Call) -> Value:
    value: Value = call["self"]
    dim = call["dim"] + (value.ndim + 1 if call["dim"] < 0 else 0)
    to = {a: a + (a >= dim) for a in range(value.ndim)}
    return replace(value, shape=tuple(call.shape), factors=tuple(f.moved(to) for f in value.factors))


@rule("aten.squeeze", kind=Kind.MOVE)
def _squeeze(call: Call) -> Value:
    value: Value = call["self"]
    axes = [a for a in axes_of(value, call.get("dim")) if value.shape[a] == 1]
    call.ties.pin_value(value, axes, "has size one and is squeezed away")
    for axis in sorted(axes, reverse=True):
        value = take(value, axis, 0)
    return value


@rule("aten.alias", "aten.detach", "aten.lift", "aten.lift_fresh", soft=True, kind=Kind.COPY)
def _same(call: Call) -> Value:
    value: Value = call["self"]
    return value


@written("aten.alias", "aten.detach", "aten.lift_fresh")
def _write_same(call: Call, base: Value, part: Value, index: int) -> Value:
    return part


@rule("aten.clone", "aten._lazy_clone", "aten._to_copy", "aten._conj", "aten._neg_view", "aten._pin_memory",
      kind=Kind.COPY)  # fmt: skip
def _copy(call: Call) -> Value:
    value: Value = call["self"]
    return value


@rule("aten.copy", kind=Kind.COPY)
def _write(call: Call) -> Value:
    return broadcast(call["src"], call.shape)


@rule("aten.flip")
def _flip(call: Call) -> Value:
    value: Value = call["self"]
    for dim in axes_of(value, call["dims"]):
        value = take(value, dim, np.arange(value.shape[dim])[::-1])
    return value


@rule("aten.roll")
def _roll(call: Call) -> Value:
    """What leaves would move the seam."""
    value: Value = call["self"]
    dims = axes_of(value, call.get("dims"))
    spared = pin_axes(call, value, dims, "is rolled")
    return replace(spared, factors=spared.factors + fixed_axes(call.ties, value.shape, dims, "is rolled"))


@rule("aten.repeat")
def _repeat(call: Call) -> Value:
    """Repeated labels leave together; an axis of size one that is repeated looks the same at every index."""
    value: Value = call["self"]
    extra = len(call.shape) - value.ndim
    shape = (1,) * extra + value.shape
    wide = Value(shape, tuple(f.moved({a: a + extra for a in f.axes}) for f in value.factors), value.zero)
    pin_stretched(call.ties, [wide], call.shape, only_ones=True)
    stretched = tuple(n if m == 1 else m for m, n in zip(shape, call.shape, strict=True))
    wide = broadcast(wide, stretched)
    factors = []
    for factor in wide.factors:
        times = [call.shape[a] // wide.shape[a] for a in factor.axes]
        factors.append(replace(factor, labels=np.tile(factor.labels, times), zero=np.tile(factor.zero, times)))
    return Value(call.shape, tuple(factors), value.zero)


@rule("aten.view_as_real")
def _as_real(call: Call) -> Value:
    value: Value = call["self"]
    parts = fixed_axes(call.ties, call.shape, [value.ndim], "is a real or imaginary part")
    return Value(call.shape, value.factors + parts, value.zero)


@rule("aten.view_as_complex")
def _as_complex(call: Call) -> Value:
    value: Value = call["self"]
    spared = pin_axes(call, value, [value.ndim - 1], "is a real or imaginary part")
    return Value(call.shape, spared.factors, value.zero)
