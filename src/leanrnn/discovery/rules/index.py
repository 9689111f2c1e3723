"""Lookups and writes at places chosen by data, packed sequences, operators that see values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from leanrnn.discovery.labels import Factor, Value, broadcast, reshape, take
from leanrnn.discovery.rules.base import Call, fixed_axes, pin_axes, rule, seen_whole, unsure, unsure_value
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.pointwise import _ADD, Zeros, pointwise_values
from leanrnn.discovery.ties import harden

_BY_DATA = "is indexed by data"


def _without(call: Call, value: Value, axes: Sequence[int]) -> Value:
    return pin_axes(call, value, axes, _BY_DATA)


def _resized(value: Value, axes: Sequence[int], sizes: Sequence[int]) -> Value:
    return replace(value, shape=tuple(sizes[a] if a in axes else n for a, n in enumerate(value.shape)))


def _fixed(call: Call, shape: tuple[int, ...], axes: Sequence[int]) -> tuple[Factor, ...]:
    return fixed_axes(call.ties, shape, axes, _BY_DATA)


@rule("aten.index_select", soft=True, kind=Kind.STEP | Kind.PASS)
def _index_select(call: Call) -> Value:
    """Torch's own recurrent code puts a stacked state back into the order of the batch; anybody else needs it as
    one block."""
    value: Value = call["self"] if call.fused else harden(call.ties, call["self"])
    index: Value = call["index"]
    dim = value.axis(call["dim"])
    if index.numbers is not None:
        return take(value, dim, index.numbers)
    spared = _without(call, value, [dim])
    chosen = tuple(unsure(f).moved({0: dim}) for f in index.factors) if value.ndim and index.ndim else ()
    return Value(call.shape, spared.factors + chosen, value.zero)


@rule("aten.gather", kind=Kind.STATE)
def _gather(call: Call) -> Value:
    """The index is as wide as the result: where it meets the tensor index by index, they are tied."""
    value, index = call["self"], call["index"]
    if not value.ndim:
        return Value(call.shape, (), value.zero)
    dim = value.axis(call["dim"])
    uneven = [a for a in range(value.ndim) if a != dim and value.shape[a] != call.shape[a]]
    rest = _resized(_without(call, value, [dim, *uneven]), [dim, *uneven], call.shape)
    met = pointwise_values(call.ties, [rest, _without(call, index, uneven)], call.shape, [(0,)])
    return replace(met, factors=met.factors + _fixed(call, call.shape, uneven))


def _places(call: Call, value: Value) -> tuple[list[int], int, int, bool]:
    """Of advanced indexing: the axes that are indexed, where the axes of the indices stand in the result (in place if
    the indexed ones stand together, else in front), how many they are, and whether a mask is among the indices."""
    used: list[int] = []
    axis, masked, new = 0, False, 0
    for index in call["indices"]:
        mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        span = index.ndim if mask else 1
        used += range(axis, axis + span) if index is not None else []
        new = max(new, (1 if mask else index.ndim) if index is not None else 0)
        masked, axis = masked or mask, axis + span
    together = used == list(range(used[0], used[0] + len(used)))
    return used, used[0] if together else 0, new, masked


@rule("aten.index", "aten._unsafe_index", kind=Kind.STEP | Kind.STATE)
def _index(call: Call) -> Value:
    """Advanced indexing: indexed axes are replaced by the axes of the indices."""
    value: Value = call["self"]
    used, front, new, masked = _places(call, value)
    left = [a for a in range(value.ndim) if a not in used]
    to = {a: i if i < front else i + new for i, a in enumerate(left)}
    spared = tuple(f.moved(to) for f in _without(call, value, used).factors)
    indices = [i for i in call["indices"] if i is not None]
    block = range(front, front + new)
    if masked:
        for index in indices:
            call.ties.pin_value(index, range(index.ndim), _BY_DATA)
        return Value(call.shape, spared + _fixed(call, call.shape, block), value.zero)
    met = pointwise_values(call.ties, indices, tuple(call.shape[a] for a in block), [])
    chosen = tuple(f.moved({a: a + front for a in f.axes}) for f in met.factors)
    return Value(call.shape, spared + chosen, value.zero)


@rule("aten.index_put", "aten._index_put_impl", "aten._unsafe_index_put")
def _index_put(call: Call) -> Value:
    """A write at places chosen by data ties what it writes to what stands there; each entry of the indices counts."""
    value, source = call["self"], call["values"]
    used, front, new, _ = _places(call, value)
    for index in (i for i in call["indices"] if i is not None):
        call.ties.pin_value(index, range(index.ndim), _BY_DATA)
    left = [a for a in range(value.ndim) if a not in used]
    shift = len(left) + new - source.ndim
    block = [a for a in range(source.ndim) if front <= a + shift < front + new]
    rest = _without(call, source, block)
    to = {p - shift: a for p, a in zip([*range(front), *range(front + new, len(left) + new)], left, strict=True)}
    shape = [1] * value.ndim
    for a in (a for a in range(source.ndim) if a not in block):
        shape[to[a]] = source.shape[a]
    written = Value(tuple(shape), tuple(f.moved(to) for f in rest.factors), source.zero)
    met = pointwise_values(call.ties, [_without(call, value, used), written], value.shape, _ADD)
    return replace(met, factors=met.factors + _fixed(call, value.shape, used))


@rule("aten.scatter", "aten.scatter_add", "aten.scatter_reduce")
def _scatter(call: Call) -> Value:
    """Written along one axis at places chosen by data; along the others the three tensors meet if they are equal."""
    value, index, source = call["self"], call["index"], call.get("src")
    if not value.ndim:
        return Value(call.shape)
    dim = value.axis(call["dim"])
    given = [v for v in (index, source) if isinstance(v, Value)]
    uneven = [a for a in range(value.ndim) if a != dim and {v.shape[a] for v in given} != {value.shape[a]}]
    axes = [dim, *uneven]
    spared, *rest = (_resized(_without(call, v, axes), axes, (1,) * v.ndim) for v in (value, *given))
    zeros: Zeros = [(0, 2)] if source is not None else [(0,)] if call.get("value", 1) == 0 else []
    shape = tuple(1 if a in axes else n for a, n in enumerate(value.shape))
    met = pointwise_values(call.ties, [spared, *(unsure_value(v) if v is rest[0] else v for v in rest)], shape, zeros)
    return Value(value.shape, met.factors + _fixed(call, value.shape, axes), met.zero)


@rule("aten.index_copy", "aten.index_add", "aten.index_fill", "aten.index_reduce")
def _write_slices(call: Call) -> Value:
    """Whole slices along one axis, at places chosen by data."""
    value, index = call["self"], call["index"]
    call.ties.pin_value(index, range(index.ndim), _BY_DATA)
    dim = value.axis(call["dim"])
    spared = _without(call, value, [dim])
    source = call.get("source", call.get("value"))
    if isinstance(source, Value) and source.ndim == value.ndim:
        shape = tuple(1 if a == dim else n for a, n in enumerate(value.shape))
        rest = _resized(_without(call, source, [dim]), [dim], (1,) * source.ndim)
        met = pointwise_values(call.ties, [_resized(spared, [dim], shape), rest], shape, _ADD)
    else:
        met = spared if source == 0 else unsure_value(spared)
    return Value(value.shape, met.factors + _fixed(call, value.shape, [dim]), met.zero)


@rule("aten.masked_scatter")
def _masked_scatter(call: Call) -> Value | list[Value]:
    """A mask over the first axes takes the source row by row: the axes behind it stay what they are."""
    value, mask, source = call["self"], call["mask"], call["source"]
    wide = (1,) * (value.ndim - mask.ndim) + mask.shape
    masked = max((a + 1 for a, n in enumerate(wide) if n > 1), default=0)
    rows = value.ndim - masked
    if not rows or source.ndim < rows or source.shape[source.ndim - rows :] != value.shape[masked:]:
        return seen_whole(call)
    call.ties.pin_value(mask, range(mask.ndim), _BY_DATA)
    axes, chosen = range(masked), range(source.ndim - rows)
    shape = (1,) * masked + value.shape[masked:]
    behind = {a: a - (source.ndim - rows) for a in range(source.ndim)}
    taken = Value(value.shape[masked:], tuple(f.moved(behind) for f in _without(call, source, chosen).factors))
    met = pointwise_values(call.ties, [_resized(_without(call, value, axes), axes, shape), taken], shape, _ADD)
    return Value(value.shape, met.factors + _fixed(call, value.shape, axes), met.zero)


@rule("aten.masked_select")
def _masked_select(call: Call) -> Value | list[Value]:
    """A mask that is the same along the last axes takes them whole: rows chosen by data, laid end to end."""
    value, mask = call["self"], call["mask"]
    shape = tuple(np.broadcast_shapes(value.shape, mask.shape))
    value, mask = broadcast(value, shape), broadcast(mask, shape)
    rows = max((a + 1 for f in mask.factors for a in f.axes), default=0)
    size = math.prod(shape[rows:])
    if rows == len(shape) or not size or call.shape[0] % size:
        return seen_whole(call)
    call.ties.pin_value(mask, range(rows), _BY_DATA)
    to = {a: a - rows + 1 for a in range(rows, len(shape))}
    spared = tuple(f.moved(to) for f in _without(call, value, range(rows)).factors)
    chosen = Value((call.shape[0] // size, *shape[rows:]), spared, value.zero)
    chosen = replace(chosen, factors=(*chosen.factors, *_fixed(call, chosen.shape, [0])))
    return reshape(chosen, call.shape)


@rule("aten._pack_padded_sequence")
def _pack(call: Call) -> list[Value]:
    """Time and batch become one axis; the others pass through."""
    value: Value = call["input"]
    pin_axes(call, call["lengths"], [0], "is packed")
    spared = tuple(f.moved({a: a - 1 for a in f.axes}) for f in pin_axes(call, value, [0, 1], "is packed").factors)
    first, *others = (fixed_axes(call.ties, s, [0], "is packed") for s in call.shapes)
    data = Value(call.shapes[0], (*first, *spared), value.zero)
    return [data, *(Value(s, f) for s, f in zip(call.shapes[1:], others, strict=True))]


@rule("aten._local_scalar_dense", kind=Kind.READ)
@rule("aten.equal", "aten.allclose", "aten.is_nonzero", "aten.item")
def _read_out(call: Call) -> list[Value]:
    for value in call.tensors():
        call.ties.pin_value(value, range(value.ndim), "is read by Python")
    return []


@rule("aten.nonzero", "aten.nonzero_static", "aten._unique", "aten._unique2", "aten.unique_dim",
      "aten.unique_consecutive", "aten.unique_dim_consecutive",
      "aten.bincount", "aten.histc", "aten.histogram", "aten.take", "aten.put",
      "aten.repeat_interleave")  # fmt: skip
def _by_value(call: Call) -> list[Value]:
    return seen_whole(call)


@rule("aten.bucketize", "aten.searchsorted")
def _search(call: Call) -> Value | list[Value]:
    """Where each value stands in a sorted sequence, which is seen whole along its last axis."""
    sequence, value = call.get("boundaries", call.get("sorted_sequence")), call["self"]
    if not isinstance(value, Value) or isinstance(call.get("sorter"), Value):
        return seen_whole(call)
    last = [sequence.ndim - 1]
    rest = _resized(_without(call, sequence, last), last, (1,) * sequence.ndim)
    return unsure_value(pointwise_values(call.ties, [value, rest] if last[0] else [value], call.shape, []))


@rule("aten.multinomial")
def _multinomial(call: Call) -> Value:
    spared = _without(call, call["self"], [call["self"].ndim - 1])
    rows = tuple(unsure(f) for f in spared.factors)
    return Value(call.shape, rows + _fixed(call, call.shape, [len(call.shape) - 1]))


@rule("aten.embedding", kind=Kind.PRODUCT)
def _embedding(call: Call) -> Value:
    weight, indices = call["weight"], call["indices"]
    columns = tuple(f.moved({1: indices.ndim}) for f in _without(call, weight, [0]).factors)
    return Value(call.shape, unsure_value(indices).factors + columns)


@rule("aten._embedding_bag", "aten._embedding_bag_forward_only", kind=Kind.PRODUCT)
def _embedding_bag(call: Call) -> list[Value]:
    weight: Value = call["weight"]
    for value in (v for v in call.tensors() if v is not weight):
        call.ties.pin_value(value, range(value.ndim), "is a batch of bags")
    columns = _without(call, weight, [0]).factors
    first = Value(call.shape, (*fixed_axes(call.ties, call.shape, [0], "is a batch of bags"), *columns))
    others = (fixed_axes(call.ties, s, None, "is a batch of bags") for s in call.shapes[1:])
    return [first, *(Value(s, f) for s, f in zip(call.shapes[1:], others, strict=True))]
