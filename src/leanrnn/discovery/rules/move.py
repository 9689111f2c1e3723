"""Operators that move labels: views, slices, repeats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Value, broadcast, permute, reshape, take
from leanrnn.discovery.rules.base import Call, axes_of, fixed, fixed_axes, hold, register
from leanrnn.discovery.rules.pointwise import pin_stretched
from leanrnn.discovery.ties import Ties

__all__ = ["tie_pieces"]


@register("aten.view", "aten._unsafe_view", "aten._reshape_alias", "aten._reshape_copy")
def _view(call: Call) -> Value:
    value: Value = call["self"]
    if value.ndim == len(call.shape) and value.shape == tuple(call.shape):
        return value
    result = reshape(value, call.shape)
    return _note_blocks(call, _drop_partners(call, result))


@register("aten.view.dtype")
def _view_dtype(call: Call) -> Value:
    """Bits read as another type: where that has another size, the last axis is cut up anew."""
    value: Value = call["self"]
    if value.shape == tuple(call.shape) or not value.factors:
        return value
    last, reason = value.ndim - 1, "is read as numbers of another size"
    kept = hold(call, value, [last], reason)
    return replace(kept, factors=(*kept.factors, fixed(call.ties, call.shape, last, reason)))


def _drop_partners(call: Call, value: Value) -> Value:
    """On an axis flattened from a fixed one (time) and one that can shrink (hidden), only the latter matters."""
    loose = {a for f in value.factors if call.ties.loose(f.labels) for a in f.main}
    factors = tuple(f for f in value.factors if call.ties.loose(f.labels) or not f.main & loose)
    return replace(value, factors=factors)


def _note_blocks(call: Call, value: Value) -> Value:
    """A split axis must stay rectangular: remember the block, it is decided when all ties are known."""
    for factor in value.factors:
        if len(factor.main) > 1 and call.ties.loose(factor.labels):
            order = [i for i, a in enumerate(factor.axes) if a in factor.main]
            rest = [i for i in range(factor.labels.ndim) if i not in order]
            call.ties.blocks.append(factor.labels.transpose(order + rest))
    return value


@register("aten.t")
def _t(call: Call) -> Value:
    value: Value = call["self"]
    return permute(value, [1, 0]) if value.ndim == 2 else value


@register("aten.transpose")
def _transpose(call: Call) -> Value:
    value: Value = call["self"]
    order = list(range(value.ndim))
    if order:
        a, b = value.axis(call["dim0"]), value.axis(call["dim1"])
        order[a], order[b] = order[b], order[a]
    return permute(value, order)


@register("aten.permute")
def _permute(call: Call) -> Value:
    return permute(call["self"], call["dims"])


@register("aten.expand")
def _expand(call: Call) -> Value:
    return broadcast(call["self"], call.shape)


@register("aten.unsqueeze")
def _unsqueeze(call: Call) -> Value:
    value: Value = call["self"]
    dim = call["dim"] + (value.ndim + 1 if call["dim"] < 0 else 0)
    to = {a: a + (a >= dim) for a in range(value.ndim)}
    return replace(value, shape=tuple(call.shape), factors=tuple(f.moved(to) for f in value.factors))


@register("aten.squeeze")
def _squeeze(call: Call) -> Value:
    value: Value = call["self"]
    axes = [a for a in axes_of(value, call.get("dim")) if value.shape[a] == 1]
    call.ties.pin_value(value, axes, "has size one and is squeezed away")
    for axis in sorted(axes, reverse=True):
        value = take(value, axis, 0)
    return value


@register("aten.alias", "aten.detach", "aten.lift", "aten.lift_fresh", soft=True)
def _same(call: Call) -> Value:
    value: Value = call["self"]
    return value


@register("aten.clone", "aten._lazy_clone", "aten._to_copy", "aten._conj", "aten._neg_view", "aten._pin_memory")
def _copy(call: Call) -> Value:
    value: Value = call["self"]
    return value


@register("aten.copy")
def _write(call: Call) -> Value:
    return broadcast(call["src"], call.shape)


@register("aten.select", soft=True)
def _select(call: Call) -> Value:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    index = int(call["index"]) % value.shape[dim]
    for factor in value.factors:
        if factor.main == {dim}:
            call.ties.pin(factor.labels, "is picked by position")
    return take(value, dim, index)


@register("aten.slice", soft=True)
def _slice(call: Call) -> Value:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    index = slice(call["start"], call["end"], call["step"])
    return take(value, dim, np.arange(value.shape[dim])[index])


@register("aten.unbind", soft=True)
def _unbind(call: Call) -> list[Value]:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    for factor in value.factors:
        if factor.main == {dim}:
            call.ties.pin(factor.labels, "is picked by position")
    return [take(value, dim, i) for i in range(value.shape[dim])]


@register("aten.split", "aten.unsafe_split", "aten.split_with_sizes", "aten.unsafe_split_with_sizes", soft=True)
def _split(call: Call) -> list[Value]:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    sizes = {shape[dim] for shape in call.shapes}
    if len(sizes) == 1:
        tie_pieces(call.ties, value, dim, len(call.shapes))
    elif "split_size" in call.arguments:
        call.ties.pin_value(value, [dim], "is cut into pieces of which the last is shorter")
    pieces, start = [], 0
    for shape in call.shapes:
        pieces.append(take(value, dim, np.arange(start, start + shape[dim])))
        start += shape[dim]
    return pieces


def tie_pieces(ties: Ties, value: Value, dim: int, count: int) -> None:
    """Equal pieces must stay equal, whatever reads them: index k of each leaves together."""
    for factor in value.factors:
        if factor.main == {dim} and len(factor.axes) == 1 and ties.loose(factor.labels):
            pieces = factor.labels.reshape(count, -1)
            ties.tie(pieces[:1], pieces)


@register("aten.flip")
def _flip(call: Call) -> Value:
    value: Value = call["self"]
    for dim in axes_of(value, call["dims"]):
        value = take(value, dim, np.arange(value.shape[dim])[::-1])
    return value


@register("aten.roll")
def _roll(call: Call) -> Value:
    """What leaves would move the seam."""
    value: Value = call["self"]
    dims = axes_of(value, call.get("dims"))
    kept = hold(call, value, dims, "is rolled")
    return replace(kept, factors=kept.factors + fixed_axes(call.ties, value.shape, dims, "is rolled"))


@register("aten.repeat")
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


@register("aten.view_as_real")
def _as_real(call: Call) -> Value:
    value: Value = call["self"]
    parts = fixed_axes(call.ties, call.shape, [value.ndim], "is a real or imaginary part")
    return Value(call.shape, value.factors + parts, value.zero)


@register("aten.view_as_complex")
def _as_complex(call: Call) -> Value:
    value: Value = call["self"]
    kept = hold(call, value, [value.ndim - 1], "is a real or imaginary part")
    return Value(call.shape, kept.factors, value.zero)
