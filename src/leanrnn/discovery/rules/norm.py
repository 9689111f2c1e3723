"""Normalisation over channels or over a whole axis."""

from __future__ import annotations

from collections.abc import Sequence

from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, fixed_axes, pin_axes, rule, unsure_value
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.pointwise import pointwise_values

_ENTERS = "enters the mean of a norm and is not zero when the component is"
_MEAN = "enters the mean of a norm"


def _column(vector: Value | None, ndim: int, axis: int) -> Value | None:
    """A vector laid along ``axis`` of a tensor with ``ndim`` axes."""
    if vector is None:
        return None
    shape = tuple(vector.shape[0] if a == axis else 1 for a in range(ndim))
    return Value(shape, tuple(f.moved({0: axis}) for f in vector.factors), vector.zero)


def _affine(call: Call, value: Value, weight: Value | None, bias: Value | None, axis: int) -> Value:
    """``value * weight + bias``; a normalised value is zero only through its weight and bias."""
    plain = unsure_value(value)
    scale, shift = _column(weight, value.ndim, axis), _column(bias, value.ndim, axis)
    if scale is not None:
        plain = pointwise_values(call.ties, [plain, scale], value.shape, [(0,), (1,)])
    if shift is not None:
        plain = pointwise_values(call.ties, [plain, shift], value.shape, [(0, 1)])
    return plain


def _averaged(call: Call, value: Value, axes: Sequence[int]) -> Value:
    """The value with labels that cannot leave on the axes over which a norm averages."""
    spared = pin_axes(call, value, axes, _MEAN)
    return Value(value.shape, spared.factors + fixed_axes(call.ties, value.shape, axes, _MEAN), value.zero)


def _statistics(call: Call, value: Value, axes: Sequence[int]) -> list[Value]:
    """The further results of a norm: means and the like, along ``axes`` of the value if they are as long."""
    found = []
    for shape in call.shapes[1:]:
        along = [a for a in axes if value.shape[a] > 1]
        fits = [n for n in shape if n > 1] == [value.shape[a] for a in along]
        to = dict(zip(along, [i for i, n in enumerate(shape) if n > 1], strict=True)) if fits else {}
        factors = tuple(f.moved(to) for f in unsure_value(value).factors if fits and set(f.axes) <= set(along))
        found.append(Value(shape, factors if fits else fixed_axes(call.ties, shape, None, _MEAN)))
    return found


@rule(
    "aten.native_batch_norm", "aten._native_batch_norm_legit", "aten._native_batch_norm_legit_no_training",
    "aten.cudnn_batch_norm", "aten.miopen_batch_norm", "aten._batch_norm_with_update", "aten._batch_norm_no_update",
    "aten._batch_norm_with_update_functional", "aten._native_batch_norm_legit_functional", kind=Kind.PASS,
)  # fmt: skip
def _batch_norm(call: Call) -> list[Value]:
    """Channels are independent; in training each is averaged over all other axes."""
    value: Value = call["input"]
    others = [a for a in range(value.ndim) if a != 1]
    if call.get("training", call.get("train", not call.name.endswith(("no_training", "no_update")))):
        value = _averaged(call, value, others)
    for name in ("running_mean", "running_var"):
        column = _column(call.get(name), value.ndim, 1)
        if column is not None:
            value = pointwise_values(call.ties, [value, column], value.shape, [])
    result = _affine(call, value, call.get("weight"), call.get("bias"), 1)
    return [result, *_statistics(call, result, [1])]


@rule("aten.native_layer_norm", "aten._fused_rms_norm", "aten.rms_norm", kind=Kind.PASS)
def _layer_norm(call: Call) -> list[Value]:
    """Exact as long as what leaves is zero and the layer keeps dividing by its original width; that takes a weight
    to own it."""
    value: Value = call["input"]
    axes = range(value.ndim - len(call["normalized_shape"]), value.ndim)
    weight, bias = call.get("weight"), call.get("bias")
    if weight is None or len(axes) > 1:
        for vector in (v for v in (weight, bias) if v is not None):
            pin_axes(call, vector, range(vector.ndim), _MEAN)
        spared = pin_axes(call, value, axes, "is divided by its width in a norm that has no weight of its own")
        result = Value(value.shape, spared.factors + fixed_axes(call.ties, value.shape, axes, _MEAN))
        return [unsure_value(result), *_statistics(call, result, range(axes[0]))]
    for factor in value.factors:
        if factor.main & set(axes):
            call.ties.need_zero(factor.labels, factor.zero, _ENTERS)
    result = _affine(call, value, weight, bias, value.ndim - 1)
    return [result, *_statistics(call, result, range(axes[0]))]


@rule("aten.native_group_norm", kind=Kind.PASS)
def _group_norm(call: Call) -> list[Value]:
    """Averaged over the channels of a group and over all axes behind; each sample for itself."""
    value = _averaged(call, call["input"], range(2, call["input"].ndim))
    if call.get("weight") is None:
        value = pin_axes(
            call, value, [1], "is divided by the size of its group in a norm that has no weight of its own"
        )
        new = fixed_axes(call.ties, value.shape, [1], _MEAN)
        value = Value(value.shape, value.factors + new)
    for factor in value.on(1):
        if int(call["group"]) != value.shape[1]:
            call.ties.need_zero(factor.labels, factor.zero, _ENTERS)
    result = _affine(call, value, call.get("weight"), call.get("bias"), 1)
    return [result, *_statistics(call, result, [0, 1] if int(call["group"]) == value.shape[1] else [0])]
