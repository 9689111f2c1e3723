"""Pointwise operators: matching indices are tied. Which operands make a zero is found by trying."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from leanrnn.discovery.labels import Flags, Value, broadcast, take
from leanrnn.discovery.rules.base import Call, register
from leanrnn.discovery.ties import Combine, Ties, unify

__all__ = ["pointwise_values"]

Subset = tuple[int, ...]
_ADD: list[Subset] = [(0, 1)]
_tried: dict[str, list[Subset]] = {}


@register("pointwise")
def _pointwise(call: Call) -> Value | list[Value]:
    values = [v for v in call.tensors()]
    out = call.get("out")
    values = [v for v in values if v is not out]
    result = pointwise_values(call.ties, values, call.shape, zero_subsets(call, values))
    return result if len(call.shapes) == 1 else [result for _ in call.shapes]


def pointwise_values(ties: Ties, values: Sequence[Value], shape: tuple[int, ...], subsets: list[Subset]) -> Value:
    """Tie operands index by index; ``subsets`` are the sets of operands that, all zero, make the result zero."""
    wide = [broadcast(v, shape) for v in values]
    _pin_stretched(ties, values, shape)
    factors = unify(ties, wide, shape, combine_by(subsets))
    zero = any(all(values[i].zero for i in subset) for subset in subsets)
    return Value(tuple(shape), factors, zero)


def combine_by(subsets: list[Subset]) -> Combine:
    """Zero flags of a result: the surest subset counts, and a subset is as sure as its least sure operand."""

    def combine(flags: list[Flags]) -> Flags:
        best: Flags = np.zeros((), np.int8)
        for subset in subsets:
            least = flags[subset[0]]
            for i in subset[1:]:
                least = np.minimum(least, flags[i])
            best = np.maximum(best, least)
        return best

    return combine


def _pin_stretched(ties: Ties, values: Sequence[Value], shape: Sequence[int]) -> None:
    for value in values:
        offset = len(shape) - value.ndim
        stretched = [a for a, n in enumerate(value.shape) if n != shape[a + offset]]
        if stretched:
            ties.pin_value(value, stretched, "has size one and is stretched over another axis")


def zero_subsets(call: Call, values: Sequence[Value]) -> list[Subset]:
    """Minimal sets of operands that make a pointwise result zero when they are, found by running the operator."""
    if not values:
        return []
    place = {id(v): i for i, v in enumerate(values)}
    dtypes = [v.dtype or torch.float32 for v in values]
    plain = {k: v for k, v in call.arguments.items() if not isinstance(v, Value)}
    key = f"{call.op} {plain} {dtypes} {[place[id(v)] for v in call.tensors() if id(v) in place]}"
    if key not in _tried:
        found: list[Subset] = []
        with _disable_current_modes():  # real numbers are needed even where the model's are not real
            for size in range(1, len(values) + 1):
                for subset in combinations(range(len(values)), size):
                    if not any(set(f) <= set(subset) for f in found) and _gives_zero(call, place, dtypes, subset):
                        found.append(subset)
        _tried[key] = found
    return _tried[key]


def _gives_zero(call: Call, place: dict[int, int], dtypes: Sequence[torch.dtype], subset: Subset) -> bool:
    generator = torch.Generator("cpu").manual_seed(0)
    for _ in range(3):
        samples = [_sample(dtype, i in subset, generator) for i, dtype in enumerate(dtypes)]
        fill = lambda v: samples[place[id(v)]] if isinstance(v, Value) and id(v) in place else v  # noqa: E731, B023
        arguments: dict[str, Any] = {k: tree_map(fill, v) for k, v in call.arguments.items() if k != "out"}
        try:
            with torch.no_grad():
                result = _apply(call.op, arguments)
        except (RuntimeError, TypeError, NotImplementedError, IndexError):
            return False
        if result.dtype == torch.bool or bool((result != 0).any()):
            return False
    return True


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


@register("aten.native_dropout")
def _native_dropout(call: Call) -> list[Value]:
    value: Value = call["input"]
    return [value, Value(value.shape)]


@register("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout")
def _dropout(call: Call) -> Value:
    value: Value = call["input"]
    return value


@register("aten.prelu", "aten._prelu_kernel")
def _prelu(call: Call) -> Value:
    value, weight = call["self"], call["weight"]
    if weight.ndim == 1 and weight.shape[0] > 1 and value.ndim > 1:
        axis = 1
        factors = tuple(f.moved({0: axis}) for f in weight.factors)
        weight = Value(tuple(n if a == axis else 1 for a, n in enumerate(value.shape)), factors)
    return pointwise_values(call.ties, [value, weight], call.shape, [(0,)])


@register("aten.glu")
def _glu(call: Call) -> Value:
    """The first half of an axis times the sigmoid of the second: index k of both leaves together."""
    value: Value = call["self"]
    dim = value.axis(int(call.get("dim", -1)))
    half = value.shape[dim] // 2
    halves = [take(value, dim, np.arange(start, start + half)) for start in (0, half)]
    return pointwise_values(call.ties, halves, call.shape, [(0,)])


@register("aten._thnn_fused_lstm_cell")
def _fused_lstm(call: Call) -> list[Value]:
    """CUDA's fused cell, taken apart: gates i, f, g, o of the summed products, then the cell's arithmetic."""
    ties, cx = call.ties, call["cx"]
    gates = _sum(ties, [call["input_gates"], call["hidden_gates"], call.get("input_bias"), call.get("hidden_bias")])
    i, f, g, o = _chunks(gates, 4)
    shape = cx.shape
    kept = pointwise_values(ties, [cx, f], shape, [(0,)])
    new = pointwise_values(ties, [g, i], shape, [(0,)])
    cy = pointwise_values(ties, [kept, new], shape, _ADD)
    hy = pointwise_values(ties, [cy, o], shape, [(0,)])
    return [hy, cy, Value(call.shapes[2])]


@register("aten._thnn_fused_gru_cell")
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
