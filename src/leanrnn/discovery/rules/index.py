"""Constants, lookups by data, gathers and scatters, packed sequences."""

from __future__ import annotations

from dataclasses import replace

import torch

from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, fixed, register
from leanrnn.discovery.ties import harden

_BY_DATA = "is indexed by data"


@register("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero", "aten.empty", "aten.empty_like",
          "aten.new_empty",
          "aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted", "aten.zeros_out")  # fmt: skip
def _zeros(call: Call) -> Value:
    return Value(call.shape, (), True)


@register(
    "aten.ones", "aten.ones_like", "aten.new_ones", "aten.full", "aten.full_like", "aten.new_full", "aten.fill",
    "aten.scalar_tensor",
    "aten.rand", "aten.randn", "aten.rand_like", "aten.randn_like", "aten.bernoulli", "aten.normal", "aten.uniform",
    "aten.randint",
    "aten.exponential", "aten.log_normal", "aten.cauchy", "aten.geometric", "aten.random", "aten.normal_functional",
)  # fmt: skip
def _constant(call: Call) -> Value:
    """The same at every index, or random at every index: nothing notices when one leaves."""
    fill = call.get("fill_value", call.get("value"))
    return Value(call.shape, (), isinstance(fill, (int, float)) and fill == 0)


@register("aten.arange", "aten.linspace", "aten.logspace", "aten.eye", "aten.tril_indices", "aten.triu_indices",
          "aten.randperm",
          "aten.hann_window", "aten.range", "aten.hamming_window")  # fmt: skip
def _positions(call: Call) -> Value:
    reason = f"meets positions made by {call.name}"
    return Value(call.shape, tuple(fixed(call.ties, call.shape, a, reason) for a in range(len(call.shape))))


@register("aten.index_select", soft=True)
def _index_select(call: Call) -> Value:
    """Torch's own recurrent code puts a stacked state back into the order of the batch; anybody else needs it as
    one block."""
    value: Value = call["self"] if call.fused else harden(call.ties, call["self"])
    return _replaced(call, value, [value.axis(call["dim"])], call.shape)


def _replaced(call: Call, value: Value, axes: list[int], shape: tuple[int, ...]) -> Value:
    """Axes whose indices are chosen by data: what could leave along them stays."""
    call.ties.pin_value(value, axes, _BY_DATA)
    kept = tuple(f for f in value.factors if not set(f.axes) & set(axes))
    return Value(shape, kept + tuple(fixed(call.ties, shape, a, _BY_DATA) for a in axes), value.zero)


@register("aten.gather", "aten.take_along_dim")
def _gather(call: Call) -> Value:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    shrunk = [a for a in range(value.ndim) if a != dim and value.shape[a] != call.shape[a]]
    return _replaced(call, value, [dim, *shrunk], call.shape)


@register("aten.index", "aten._unsafe_index")
def _index(call: Call) -> Value:
    """Advanced indexing: indexed axes are replaced by the axes of the indices, in place if they stand together,
    else in front."""
    value: Value = call["self"]
    used: list[int] = []
    axis = 0
    for index in call["indices"]:
        span = 1 if index is None or index.dtype is not torch.bool else index.ndim
        used += range(axis, axis + span) if index is not None else []
        axis += span
    call.ties.pin_value(value, used, _BY_DATA)
    new = len(call.shape) - (value.ndim - len(used))
    together = used == list(range(used[0], used[0] + len(used)))
    front = used[0] if together else 0
    left = [a for a in range(value.ndim) if a not in used]
    to = {a: i if i < front else i + new for i, a in enumerate(left)}
    kept = tuple(f.moved(to) for f in value.factors if not set(f.axes) & set(used))
    return Value(
        call.shape,
        kept + tuple(fixed(call.ties, call.shape, a, _BY_DATA) for a in range(front, front + new)),
        value.zero,
    )


@register("aten.index_put", "aten._index_put_impl", "aten.index_copy", "aten.index_add", "aten.index_fill",
          "aten.scatter",
          "aten.scatter_add", "aten.scatter_reduce", "aten.masked_scatter")  # fmt: skip
def _write_by_data(call: Call) -> Value:
    """A write at places chosen by data ties what it writes to what stands there, and keeps the axes it chooses on."""
    from leanrnn.discovery.rules.pointwise import pointwise_values

    value: Value = call["self"]
    source = next((call[n] for n in ("values", "src", "source") if isinstance(call.get(n), Value)), None)
    axes = [value.axis(call["dim"])] if "dim" in call.arguments else _put_axes(call, value)
    call.ties.pin_value(value, axes, _BY_DATA)
    kept = replace(value, factors=tuple(f for f in value.factors if not set(f.axes) & set(axes)))
    if isinstance(source, Value):
        offset = value.ndim - source.ndim
        drop = {a - offset for a in axes}
        if "dim" not in call.arguments:
            call.ties.pin_value(source, [a for a in range(source.ndim) if a + offset in axes], _BY_DATA)
        else:
            call.ties.pin_value(source, axes, _BY_DATA)
        rest = tuple(f for f in source.factors if not set(f.axes) & drop and _fits(f.axes, offset, source, value))
        shape = tuple(1 if a in drop else n for a, n in enumerate(source.shape))
        source = Value(shape, rest, source.zero)
        kept = pointwise_values(call.ties, [kept, source], value.shape, [(0, 1)])
    new = tuple(fixed(call.ties, value.shape, a, _BY_DATA) for a in axes)
    return Value(value.shape, kept.factors + new, value.zero and source is None)


def _fits(axes: tuple[int, ...], offset: int, source: Value, value: Value) -> bool:
    return all(a + offset >= 0 and source.shape[a] == value.shape[a + offset] for a in axes)


def _put_axes(call: Call, value: Value) -> list[int]:
    used: list[int] = []
    axis = 0
    for index in call.get("indices", ()):
        span = 1 if index is None or index.dtype is not torch.bool else index.ndim
        used += range(axis, axis + span) if index is not None else []
        axis += span
    return used or list(range(value.ndim))


@register("aten._pack_padded_sequence")
def _pack(call: Call) -> list[Value]:
    """Time and batch become one axis; the others pass through."""
    value: Value = call["input"]
    call.ties.pin_value(value, [0, 1], "is packed")
    kept = tuple(f.moved({a: a - 1 for a in f.axes}) for f in value.factors if not set(f.axes) & {0, 1})
    data = Value(call.shapes[0], (fixed(call.ties, call.shapes[0], 0, "is packed"), *kept), value.zero)
    return [data, *(Value(s) for s in call.shapes[1:])]


@register("aten._local_scalar_dense", "aten.equal", "aten.is_nonzero", "aten.item")
def _read_out(call: Call) -> list[Value]:
    for value in call.tensors():
        call.ties.pin_value(value, range(value.ndim), "is read by Python")
    return []


@register("aten.nonzero", "aten.unique", "aten._unique2", "aten.unique_consecutive", "aten.masked_select",
          "aten.bincount",
          "aten.searchsorted", "aten.bucketize", "aten.multinomial")  # fmt: skip
def _by_value(call: Call) -> list[Value]:
    for value in call.tensors():
        call.ties.pin_value(value, range(value.ndim), f"is seen whole by {call.name}")
    return [
        Value(s, tuple(fixed(call.ties, s, a, f"comes out of {call.name}") for a in range(len(s)))) for s in call.shapes
    ]
