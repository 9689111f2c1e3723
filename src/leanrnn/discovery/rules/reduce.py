"""Operators that look along an axis: sums, extrema, softmax, sorting, cumulative operators."""

from __future__ import annotations

from dataclasses import replace

from leanrnn.discovery.labels import Factor, Value
from leanrnn.discovery.rules.base import (
    Call,
    axes_of,
    drop_axes,
    fixed_axes,
    pin_axes,
    rule,
    summed,
    unsure,
    unsure_value,
)  # fmt: skip
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.pointwise import _ADD, pointwise_values
from leanrnn.discovery.ties import across

_ZERO_OF_ZEROS = {
    "mean", "nanmean", "max", "min", "amax", "amin", "aminmax", "prod", "std", "var", "median", "nanmedian", "mode",
    "kthvalue", "cumsum", "cumprod", "fft_r2c", "fft_c2c", "fft_c2r", "sort", "cummax", "cummin", "topk",
}  # fmt: skip
"""What these make of zeros is zero; a logarithm or an exponential is not."""


@rule("aten.sum", "aten.nansum", kind=Kind.SUM)
@rule("aten.linalg_vector_norm", "aten.linalg__powsum", "aten.norm",
      "aten.count_nonzero")  # fmt: skip
def _sum(call: Call) -> Value:
    """A zero adds nothing: exact as long as what leaves is zero."""
    axes = axes_of(call["self"], call.get("dim"))
    value = across(call.ties, call["self"], axes)
    order = call.get("ord", call.get("p", 2))
    if "norm" in call.name and order is not None and float(order) < 0:
        call.ties.pin_value(value, axes, f"is seen whole by {call.name}")
        value = unsure_value(value)
    spared = summed(call, value, axes)
    return drop_axes(spared, axes, bool(call.get("keepdim", False)), call.shape)


@rule(
    "aten.mean", "aten.max", "aten.min", "aten.amax", "aten.amin", "aten.aminmax", "aten._aminmax", "aten.argmax",
    "aten.argmin", "aten.any", "aten.all", "aten.prod", "aten.std", "aten.var", "aten.var_mean", "aten.std_mean",
    "aten.logsumexp", "aten.median", "aten.nanmedian", "aten.mode", "aten.kthvalue", "aten._is_all_true",
    "aten._is_any_true",
)  # fmt: skip
def _seen(call: Call) -> Value | list[Value]:
    """A reduction that sees the whole axis at once: what could leave along it stays."""
    value: Value = call["self"]
    axes = axes_of(value, call.get("dim"))
    spared = pin_axes(call, value, axes, f"is seen whole by {call.name}")
    results = [
        drop_axes(_sure(call, spared, i), axes, bool(call.get("keepdim", False)), s) for i, s in enumerate(call.shapes)
    ]
    return results[0] if len(results) == 1 else results


@rule("aten.max.other", "aten.min.other", kind=Kind.POINTWISE)
def _larger(call: Call) -> Value:
    """The larger, or smaller, of two numbers."""
    return pointwise_values(call.ties, [call["self"], call["other"]], call.shape, _ADD)


def _sure(call: Call, value: Value, result: int) -> Value:
    """A second result is an index, which is never sure to be zero."""
    return value if result == 0 and call.name in _ZERO_OF_ZEROS else unsure_value(value)


@rule(
    "aten._softmax", "aten._log_softmax", "aten._safe_softmax", "aten.sort", "aten.topk", "aten._fft_r2c",
    "aten._fft_c2c", "aten._fft_c2r",
)  # fmt: skip
@rule("aten.cumprod", "aten.logcumsumexp", "aten._logcumsumexp", "aten.cummax", "aten.cummin", kind=Kind.SCAN)
def _along(call: Call) -> Value | list[Value]:
    """An operator along an axis whose other axes are independent of each other."""
    axes = axes_of(call["self"], call.get("dim", -1))
    spared = pin_axes(call, call["self"], axes, f"is seen whole by {call.name}")
    results = []
    for i, shape in enumerate(call.shapes):
        value = _sure(call, spared, i)
        new = fixed_axes(call.ties, shape, axes, f"comes out of {call.name}")
        results.append(Value(shape, value.factors + new, value.zero))
    return results[0] if len(results) == 1 else results


@rule("aten.cumsum", kind=Kind.SCAN)
def _cumsum(call: Call) -> Value:
    """Sums up to each index: what leaves has to be zero, and what it leaves behind is not."""
    value: Value = call["self"]
    axes = axes_of(value, call["dim"])
    value = across(call.ties, value, axes)
    summed(call, value, axes)
    factors = tuple(unsure(f) if f.main & set(axes) else f for f in value.factors)
    return replace(value, factors=factors)


@rule("aten.renorm", "aten.embedding_renorm")
def _renorm(call: Call) -> Value:
    """Every slice along one axis is scaled by its own norm, to which a zero adds nothing; in a table of embeddings
    those that an index asks for."""
    value: Value = call["self"]
    if isinstance(call.get("indices"), Value):
        pin_axes(call, call["indices"], range(call["indices"].ndim), "is an index of embeddings")
        pin_axes(call, value, [0], "is indexed by data")
    others = [a for a in range(value.ndim) if a != value.axis(call.get("dim", 0))]
    summed(call, across(call.ties, value, others), others)
    return value


@rule("aten._cdist_forward", "aten._euclidean_dist")
def _cdist(call: Call) -> Value:
    """Distances of rows: the sum over columns, to which a column that is zero in both adds nothing."""
    left, right = call["x1"], call["x2"]
    n = left.ndim
    rows = Value((*left.shape[:-1], 1, left.shape[-1]), _inserted(left, n - 1), left.zero)
    columns = Value((*right.shape[:-2], 1, *right.shape[-2:]), _inserted(right, n - 2), right.zero)
    met = pointwise_values(call.ties, [rows, columns], (*call.shape, left.shape[-1]), _ADD)
    spared = drop_axes(summed(call, across(call.ties, met, [n]), [n]), [n], False, call.shape)
    return replace(spared, factors=tuple(unsure(f) for f in spared.factors))


def _inserted(value: Value, axis: int) -> tuple[Factor, ...]:
    return tuple(f.moved({a: a + (a >= axis) for a in range(value.ndim)}) for f in value.factors)


@rule("aten._pdist_forward")
def _pdist(call: Call) -> Value:
    value: Value = call["self"]
    summed(call, value, [1])
    pin_axes(call, value, [0], "is compared with itself by pdist")
    return Value(call.shape, fixed_axes(call.ties, call.shape, None, "comes out of pdist"))
