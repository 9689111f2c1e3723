"""Normalisation over channels or over a whole axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Factor, Value
from leanrnn.discovery.rules.base import Call, register
from leanrnn.discovery.rules.pointwise import pointwise_values


def _column(vector: Value | None, ndim: int, axis: int) -> Value | None:
    """A vector laid along ``axis`` of a tensor with ``ndim`` axes."""
    if vector is None:
        return None
    shape = tuple(vector.shape[0] if a == axis else 1 for a in range(ndim))
    return Value(shape, tuple(f.moved({0: axis}) for f in vector.factors), vector.zero)


def _affine(call: Call, value: Value, weight: Value | None, bias: Value | None, axis: int) -> Value:
    """``value * weight + bias``; a normalised value is zero only through its weight and bias."""
    plain = replace(value, factors=tuple(_unsure(f) for f in value.factors), zero=False)
    scale, shift = _column(weight, value.ndim, axis), _column(bias, value.ndim, axis)
    if scale is not None:
        plain = pointwise_values(call.ties, [plain, scale], value.shape, [(0,), (1,)])
    if shift is not None:
        plain = pointwise_values(call.ties, [plain, shift], value.shape, [(0, 1)])
    return plain


def _unsure(factor: Factor) -> Factor:
    return replace(factor, zero=np.zeros_like(factor.zero))


@register(
    "aten.native_batch_norm", "aten._native_batch_norm_legit", "aten._native_batch_norm_legit_no_training",
    "aten.cudnn_batch_norm",
    "aten._batch_norm_with_update", "aten.batch_norm", "aten._native_batch_norm_legit_functional",
)  # fmt: skip
def _batch_norm(call: Call) -> list[Value]:
    value: Value = call["input"]
    result = _affine(call, value, call.get("weight"), call.get("bias"), 1)
    for name in ("running_mean", "running_var"):
        column = _column(call.get(name), value.ndim, 1)
        if column is not None:
            pointwise_values(call.ties, [value, column], value.shape, [])
    return [result] + [Value(s) for s in call.shapes[1:]]


@register("aten.native_layer_norm", "aten._fused_rms_norm", "aten.rms_norm")
def _layer_norm(call: Call) -> list[Value]:
    """Exact as long as what leaves is zero and the layer keeps dividing by its original width; that takes a weight
    to own it."""
    value: Value = call["input"]
    axes = range(value.ndim - len(call["normalized_shape"]), value.ndim)
    weight, bias = call.get("weight"), call.get("bias")
    if weight is None or len(axes) > 1:
        call.ties.pin_value(value, axes, "is divided by its width in a norm that has no weight of its own")
        return [replace(value, factors=tuple(_unsure(f) for f in value.factors))] + [Value(s) for s in call.shapes[1:]]
    for factor in value.factors:
        if factor.main & set(axes):
            call.ties.need_zero(
                factor.labels, factor.zero, "enters the mean of a norm and is not zero when the component is"
            )
    result = _affine(call, value, weight, bias, value.ndim - 1)
    return [result] + [Value(s) for s in call.shapes[1:]]


@register("aten.native_group_norm")
def _group_norm(call: Call) -> list[Value]:
    value: Value = call["input"]
    if call.get("weight") is None:
        call.ties.pin_value(value, [1], "is divided by the size of its group in a norm that has no weight of its own")
    for factor in value.on(1):
        if int(call["group"]) != value.shape[1]:
            call.ties.need_zero(
                factor.labels, factor.zero, "enters the mean of a norm and is not zero when the component is"
            )
    result = _affine(call, value, call.get("weight"), call.get("bias"), 1)
    return [result] + [Value(s) for s in call.shapes[1:]]
