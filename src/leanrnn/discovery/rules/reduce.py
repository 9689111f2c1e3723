"""Operators that look along an axis: sums, extrema, softmax, sorting, cumulative operators, pooling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, axes_of, drop_axes, fixed, register
from leanrnn.discovery.ties import across


@register("aten.sum", "aten.nansum", "aten.linalg_vector_norm", "aten.norm", "aten.count_nonzero")
def _sum(call: Call) -> Value:
    """A zero adds nothing: exact as long as what leaves is zero."""
    axes = axes_of(call["self"], call.get("dim"))
    value = across(call.ties, call["self"], axes)
    order = call.get("ord", call.get("p", 2))
    if call.name in ("norm", "linalg_vector_norm") and order is not None and float(order) <= 0:
        call.ties.pin_value(value, axes, f"is seen whole by {call.name}")
    kept = []
    for factor in value.factors:
        if factor.main & set(axes):
            call.ties.need_zero(
                factor.labels, factor.zero, f"is summed over by {call.name} and is not zero when the component is"
            )
            call.ties.collapse(factor, [a for a in factor.axes if a not in axes])
        else:
            kept.append(factor)
    return drop_axes(replace(value, factors=tuple(kept)), axes, bool(call.get("keepdim", False)), call.shape)


@register(
    "aten.mean", "aten.max", "aten.min", "aten.amax", "aten.amin", "aten.aminmax", "aten.argmax", "aten.argmin",
    "aten.any",
    "aten.all", "aten.prod", "aten.std", "aten.var", "aten.var_mean", "aten.std_mean", "aten.logsumexp", "aten.median",
    "aten.nanmedian", "aten.mode", "aten.kthvalue", "aten.nanmean", "aten.quantile",
)  # fmt: skip
def _seen(call: Call) -> Value | list[Value]:
    """A reduction that sees the whole axis at once: what could leave along it stays."""
    value: Value = call["self"]
    other = call.get("other")
    if isinstance(other, Value):
        from leanrnn.discovery.rules.pointwise import pointwise_values

        return pointwise_values(call.ties, [value, other], call.shape, [(0, 1)])
    axes = axes_of(value, call.get("dim"))
    value = across(call.ties, value, axes)
    call.ties.pin_value(value, axes, f"is seen whole by {call.name}")
    flat = replace(value, factors=tuple(replace(f, zero=_at_most(f.zero, call)) for f in value.factors))
    results = [drop_axes(flat, axes, bool(call.get("keepdim", False)), s) for s in call.shapes]
    return results[0] if len(results) == 1 else results


def _at_most(zero: np.ndarray, call: Call) -> np.ndarray:
    """Reductions of zeros that are zero keep the flag; an index or a logarithm does not."""
    return (
        zero
        if call.name in ("mean", "max", "min", "amax", "amin", "prod", "std", "var", "median")
        else np.zeros_like(zero)
    )


@register(
    "aten._softmax", "aten._log_softmax", "aten.softmax", "aten.log_softmax", "aten._safe_softmax", "aten.cumsum",
    "aten.cumprod", "aten.logcumsumexp", "aten.cummax", "aten.cummin", "aten.sort", "aten.argsort", "aten.topk",
    "aten.msort",
    "aten.renorm", "aten._fft_r2c", "aten._fft_c2c", "aten._fft_c2r", "aten.diff",
)  # fmt: skip
def _along(call: Call) -> Value | list[Value]:
    """An operator along an axis whose other axes are independent of each other."""
    axes = axes_of(call["self"], call.get("dim", -1))
    value = across(call.ties, call["self"], axes)
    call.ties.pin_value(value, axes, f"is seen whole by {call.name}")
    results = []
    for shape in call.shapes:
        kept = []
        for factor in value.factors:
            if factor.main & set(axes):
                continue
            keeps = call.name in (
                "cumsum",
                "cumprod",
                "fft_r2c",
                "fft_c2c",
                "fft_c2r",
                "sort",
                "cummax",
                "cummin",
                "topk",
            )
            kept.append(factor if keeps else replace(factor, zero=np.zeros_like(factor.zero)))
        new = [fixed(call.ties, shape, a, f"comes out of {call.name}") for a in axes]
        results.append(Value(shape, (*kept, *new), value.zero and call.name.startswith("cum")))
    return results[0] if len(results) == 1 else results


@register(
    "aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d", "aten.max_pool1d", "aten.max_pool2d_with_indices",
    "aten.max_pool2d",
    "aten.max_pool3d_with_indices", "aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d",
    "aten.adaptive_max_pool2d",
    "aten.adaptive_max_pool1d", "aten.adaptive_avg_pool1d", "aten.upsample_nearest1d", "aten.upsample_nearest2d",
    "aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.max_pool1d_with_indices", "aten.reflection_pad1d",
    "aten.reflection_pad2d", "aten.replication_pad1d", "aten.replication_pad2d",
)  # fmt: skip
def _window(call: Call) -> Value | list[Value]:
    """A window over the last axes; the axes before them are independent."""
    value: Value = call["self"] if "self" in call.arguments else call["input"]
    count = 1 if "1d" in call.name else 3 if "3d" in call.name else 2
    axes = range(value.ndim - count, value.ndim)
    call.ties.pin_value(value, axes, f"is slid over by {call.name}")
    kept = tuple(f for f in value.factors if not f.main & set(axes))
    results = []
    for shape in call.shapes:
        new = tuple(fixed(call.ties, shape, a, f"is the length that comes out of {call.name}") for a in axes)
        results.append(Value(shape, kept + new, value.zero))
    return results[0] if len(results) == 1 else results


@register("aten.constant_pad_nd")
def _pad(call: Call) -> Value:
    value: Value = call["self"]
    pad = list(call["pad"])
    axes = [value.ndim - 1 - i for i in range(len(pad) // 2) if pad[2 * i] or pad[2 * i + 1]]
    call.ties.pin_value(value, axes, "is padded")
    flag = 2 if call.get("value", 0) == 0 else 0
    kept = tuple(
        replace(f, zero=np.minimum(f.zero, flag).astype(np.int8)) for f in value.factors if not f.main & set(axes)
    )
    new = tuple(fixed(call.ties, call.shape, a, "is padded") for a in axes)
    return Value(call.shape, kept + new, value.zero and flag == 2)


@register("aten.tril", "aten.triu")
def _triangle(call: Call) -> Value:
    value: Value = call["self"]
    call.ties.pin_value(value, [value.ndim - 2, value.ndim - 1], f"is cut to a triangle by {call.name}")
    return value


@register("aten.unfold")
def _unfold(call: Call) -> Value:
    value: Value = call["self"]
    dim = value.axis(int(call["dimension"]))
    call.ties.pin_value(value, [dim], "is unfolded into windows")
    kept = tuple(f for f in value.factors if dim not in f.axes)
    new = (fixed(call.ties, call.shape, dim, "is unfolded"), fixed(call.ties, call.shape, value.ndim, "is unfolded"))
    return Value(call.shape, kept + new, value.zero)
