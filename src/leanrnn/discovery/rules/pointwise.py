"""Pointwise operators: matching indices are tied. Which operands make a zero is found by trying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from leanrnn.discovery.labels import Flags, Value, broadcast, take
from leanrnn.discovery.rules.base import Call, rule, unsure_value
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.ties import Ties
from leanrnn.discovery.unify import Combine, unify

__all__ = ["pin_stretched", "pointwise_values"]

Subset = tuple[int, ...]
Zeros = list[Subset] | tuple[bool, ...]
"""Which operands make a zero: sets that do so whatever the others are, or for every set (a bit per operand) whether it
does while the others are not zero."""
_ADD: list[Subset] = [(0, 1)]
_tried: dict[str, tuple[bool, ...]] = {}


@rule("pointwise", "aten.complex", "aten.polar", "aten.hardswish", "aten.floor_divide", "aten.rrelu_with_noise",
      "aten.log_sigmoid_forward", "aten.__irshift__", kind=Kind.POINTWISE)  # fmt: skip
def _pointwise(call: Call) -> Value | list[Value]:
    values = call.tensors()
    table = zero_table(call, values)
    for i, value in enumerate(values):
        zeroed = [f for f in value.factors if (f.zero > 0).any()] if call.is_weight(value) else []
        if zeroed and not _takes_zero(call, values, i):
            # Divided by: a time constant, say. It leaves with its component, but as the number it is.
            call.ties.divisors += [f.labels.reshape(-1) for f in zeroed]
            values[i] = unsure_value(value)
    result = pointwise_values(call.ties, values, call.shape, table)
    return result if len(call.shapes) == 1 else [result, *(unsure_value(result) for _ in call.shapes[1:])]


def pointwise_values(ties: Ties, values: Sequence[Value], shape: tuple[int, ...], zeros: Zeros) -> Value:
    """Tie operands index by index; ``zeros`` says which operands, when zero, make the result zero."""
    wide = [broadcast(v, shape) for v in values]
    pin_stretched(ties, values, shape)
    table = zeros if isinstance(zeros, tuple) else _closed(len(values), zeros)
    factors = unify(ties, wide, shape, combine_by(table))
    return Value(tuple(shape), factors, table[sum(v.zero << i for i, v in enumerate(values))])


def _closed(count: int, subsets: list[Subset]) -> tuple[bool, ...]:
    bits = [sum(1 << i for i in subset) for subset in subsets]
    return tuple(any(b & mask == b for b in bits) for mask in range(1 << count))


def combine_by(table: Sequence[bool]) -> Combine:
    """Zero flags of a result. With the weights zero it has to be zero, and to stay so once the biases are (0/0 would
    not)."""
    lookup = np.asarray(table)

    def combine(flags: list[Flags]) -> Flags:
        weights, biases = (
            lookup[sum((f >= level).astype(np.int64) << i for i, f in enumerate(flags))] for level in (2, 1)
        )
        return np.where(biases, np.where(weights, 2, 1), 0).astype(np.int8)

    return combine


def pin_stretched(ties: Ties, values: Sequence[Value], shape: Sequence[int], only_ones: bool = False) -> None:
    """What could leave along an axis of size one that is stretched over another stays."""
    for value in values:
        offset = len(shape) - value.ndim
        stretched = [a for a, n in enumerate(value.shape) if n != shape[a + offset] and (n == 1 or not only_ones)]
        if stretched:
            ties.pin_value(value, stretched, "has size one and is stretched over another axis")


def zero_table(call: Call, values: Sequence[Value]) -> tuple[bool, ...]:
    """For every set of operands whether the result is zero when just these are, found by running the operator."""
    place = {id(v): i for i, v in enumerate(values)}
    dtypes = [v.dtype or torch.float32 for v in values]
    plain = {k: v for k, v in call.arguments.items() if not isinstance(v, Value)}
    key = f"{call.op} {plain} {dtypes} {[place[id(v)] for v in call.tensors() if id(v) in place]}"
    if key not in _tried:
        sets = [tuple(i for i in range(len(values)) if mask >> i & 1) for mask in range(1 << len(values))]
        with _disable_current_modes():  # real numbers are needed even where the model's are not real
            _tried[key] = tuple(bool(s) and _gives_zero(call, place, dtypes, s) for s in sets)
    return _tried[key]


def _gives_zero(call: Call, place: dict[int, int], dtypes: Sequence[torch.dtype], subset: Subset) -> bool:
    results = _results(call, place, dtypes, subset)
    return results is not None and not any(r.dtype == torch.bool or bool((r != 0).any()) for r in results)


def _takes_zero(call: Call, values: Sequence[Value], i: int) -> bool:
    """Whether the operator still gives numbers when operand ``i`` is zero and the others are not."""
    place = {id(v): k for k, v in enumerate(values)}
    with _disable_current_modes():
        results = _results(call, place, [v.dtype or torch.float32 for v in values], (i,))
        return results is None or not any(bool(r.isinf().any()) for r in results)


def _results(
    call: Call, place: dict[int, int], dtypes: Sequence[torch.dtype], zero: Subset
) -> list[torch.Tensor] | None:
    """What the operator gives for random numbers, three times, with these operands at zero."""
    generator = torch.Generator("cpu").manual_seed(0)
    found = []
    for _ in range(3):
        samples = [_sample(dtype, i in zero, generator) for i, dtype in enumerate(dtypes)]
        fill = lambda v: samples[place[id(v)]] if isinstance(v, Value) and id(v) in place else v  # noqa: E731, B023
        arguments: dict[str, Any] = {k: tree_map(fill, v) for k, v in call.arguments.items() if k != "out"}
        try:
            with torch.no_grad():
                found.append(_apply(call.op, arguments))
        except (RuntimeError, TypeError, NotImplementedError, IndexError):
            return None
    return found


def _apply(op: Any, arguments: dict[str, Any]) -> torch.Tensor:
    positional = [a.name for a in op._schema.arguments if not a.kwarg_only and a.name in arguments]
    kwargs = {
        a.name: arguments[a.name]
        for a in op._schema.arguments
        if a.kwarg_only and a.name in arguments and a.name not in ("device", "pin_memory", "layout")
    }
    overload = op
    if any(a.is_out for a in op._schema.arguments):
        overload = op.overloadpacket
    result = overload(*[arguments[n] for n in positional], **kwargs)
    first = result[0] if isinstance(result, (tuple, list)) else result
    return first if isinstance(first, torch.Tensor) else torch.as_tensor(first)


def _sample(dtype: torch.dtype, zero: bool, generator: torch.Generator) -> torch.Tensor:
    draw = torch.rand(4, generator=generator, device="cpu")
    if zero:
        return torch.zeros_like(draw, dtype=dtype)
    if dtype == torch.bool:
        return draw < 0.5
    numbers = draw.new_tensor([1.0, -1.0, 2.0, -2.0])
    return (
        ((draw + 0.5) * numbers).to(dtype) if dtype.is_floating_point or dtype.is_complex else numbers.abs().to(dtype)
    )


@rule("aten.native_dropout", kind=Kind.PASS)
def _native_dropout(call: Call) -> list[Value]:
    value: Value = call["input"]
    return [value, Value(value.shape)]


@rule("aten._prelu_kernel")
def _prelu(call: Call) -> Value:
    value, weight = call["self"], call["weight"]
    if weight.ndim == 1 and weight.shape[0] > 1 and value.ndim > 1:
        axis = 1
        factors = tuple(f.moved({0: axis}) for f in weight.factors)
        weight = Value(tuple(n if a == axis else 1 for a, n in enumerate(value.shape)), factors)
    return pointwise_values(call.ties, [value, weight], call.shape, [(0,)])


@rule("aten.glu")
def _glu(call: Call) -> Value:
    """The first half of an axis times the sigmoid of the second: index k of both leaves together."""
    value: Value = call["self"]
    dim = value.axis(int(call.get("dim", -1)))
    half = value.shape[dim] // 2
    halves = [take(value, dim, np.arange(start, start + half)) for start in (0, half)]
    return pointwise_values(call.ties, halves, call.shape, [(0,)])


@rule("aten._thnn_fused_lstm_cell")
def _fused_lstm(call: Call) -> list[Value]:
    """CUDA's fused cell, taken apart: gates i, f, g, o of the summed products, then the cell's arithmetic."""
    ties, cx = call.ties, call["cx"]
    gates = _sum(ties, [call["input_gates"], call["hidden_gates"], call.get("input_bias"), call.get("hidden_bias")])
    i, f, g, o = _chunks(gates, 4)
    shape = cx.shape
    spared = pointwise_values(ties, [cx, f], shape, [(0,)])
    new = pointwise_values(ties, [g, i], shape, [(0,)])
    cy = pointwise_values(ties, [spared, new], shape, _ADD)
    hy = pointwise_values(ties, [cy, o], shape, [(0,)])
    return [hy, cy, Value(call.shapes[2])]


@rule("aten._thnn_fused_gru_cell")
def _fused_gru(call: Call) -> list[Value]:
    """CUDA's fused cell, taken apart: gates r, z, n."""
    ties, hx = call.ties, call["hx"]
    left = _chunks(_sum(ties, [call["input_gates"], call.get("input_bias")]), 3)
    right = _chunks(_sum(ties, [call["hidden_gates"], call.get("hidden_bias")]), 3)
    reset, update = (pointwise_values(ties, [a, b], hx.shape, []) for a, b in zip(left[:2], right[:2], strict=True))
    inner = pointwise_values(ties, [right[2], reset], hx.shape, [(0,)])
    new = pointwise_values(ties, [left[2], inner], hx.shape, _ADD)
    hy = pointwise_values(ties, [new, hx, update], hx.shape, [(0, 1)])
    return [hy, Value(call.shapes[1])]


def _sum(ties: Ties, values: Sequence[Value | None]) -> Value:
    there = [v for v in values if v is not None]
    total = there[0]
    for value in there[1:]:
        total = pointwise_values(ties, [total, value], total.shape, _ADD)
    return total


def _chunks(value: Value, parts: int) -> list[Value]:
    size = value.shape[-1] // parts
    return [take(value, value.ndim - 1, np.arange(i * size, (i + 1) * size)) for i in range(parts)]
