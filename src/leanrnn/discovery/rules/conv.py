"""Convolutions: channels are contracted like a matrix product, the axes they slide over stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Factor, Value, take
from leanrnn.discovery.rules.base import Call, fixed_axes, hold, register
from leanrnn.discovery.rules.matmul import product
from leanrnn.discovery.rules.pointwise import _ADD, pointwise_values
from leanrnn.discovery.ties import Ties

_SLID, _WINDOW = "is slid over by a convolution", "is the window of a convolution"
_LENGTH = "is the length that comes out of a convolution"


@register("aten.convolution", "aten._convolution", "aten.convolution_overrideable")
def _convolution(call: Call) -> Value:
    value, weight, bias = call["input"], call["weight"], call.get("bias")
    spatial = list(range(2, value.ndim))
    plain, kernel = _channels(call, value, (0, 1), _SLID), _channels(call, weight, (0, 1), _WINDOW)
    transposed, groups = bool(call.get("transposed", False)), int(call.get("groups", 1))
    shape = (value.shape[0], call.shape[1])
    if groups == 1:
        total = product(call, plain, kernel, "nc,co->no" if transposed else "nc,oc->no", shape)
    elif groups == value.shape[1] and (not transposed or kernel.shape[1] == 1):
        total = _depthwise(call, plain, kernel, shape)
    else:
        total = _grouped(call, plain, kernel, groups, transposed, shape)
    result = Value(call.shape, total.factors + fixed_axes(call.ties, call.shape, spatial, _LENGTH), total.zero)
    if bias is None:
        return result
    column = Value((bias.shape[0],) + (1,) * len(spatial), bias.factors, bias.zero)
    return pointwise_values(call.ties, [result, column], call.shape, _ADD)


def _channels(call: Call, value: Value, axes: Sequence[int], reason: str) -> Value:
    """A value without the axes that a convolution slides over."""
    others = [a for a in range(value.ndim) if a not in axes]
    to = {a: i for i, a in enumerate(axes)}
    factors = tuple(f.moved(to) for f in hold(call, value, others, reason).factors)
    return _same_role(call, value, Value(tuple(value.shape[a] for a in axes), factors, value.zero))


def _depthwise(call: Call, value: Value, weight: Value, shape: tuple[int, int]) -> Value:
    """One channel in, one or more out, which leave together."""
    spread = take(value, 1, np.arange(value.shape[1]).repeat(shape[1] // value.shape[1]))
    rows = Value((1, shape[1]), tuple(f.moved({0: 1}) for f in weight.on(0)), weight.zero)
    call.ties.pin_value(weight, [1], "is the single channel of a depthwise convolution")
    return pointwise_values(call.ties, [spread, rows], shape, [(0,), (1,)])


def _grouped(call: Call, value: Value, weight: Value, groups: int, transposed: bool, shape: tuple[int, int]) -> Value:
    """Channel k of each group leaves together with channel k of every other group, so that groups stay equal."""
    names = "nc,co->no" if transposed else "nc,oc->no"
    rows = _same_role(call, weight, _fold(call.ties, weight, 0, groups))
    once = product(call, _fold(call.ties, value, 1, groups), rows, names, (shape[0], shape[1] // groups))
    if not once.on(1):
        once = replace(once, factors=(*once.factors, Factor.on(1, call.ties.fresh(once.shape[1]))))
    return take(once, 1, np.tile(np.arange(once.shape[1]), groups))


def _fold(ties: Ties, value: Value, axis: int, groups: int) -> Value:
    """Equal pieces along an axis, laid over each other."""
    size = value.shape[axis] // groups
    factors = []
    for factor in value.factors:
        if factor.axes != (axis,):
            factors.append(factor)
            continue
        labels, zero = factor.labels.reshape(groups, size), factor.zero.reshape(groups, size)
        ties.tie(labels[:1], labels)
        factors.append(Factor((axis,), labels.max(axis=0), zero.min(axis=0), factor.main))
    shape = tuple(size if a == axis else n for a, n in enumerate(value.shape))
    return replace(value, shape=shape, factors=tuple(factors))


def _same_role(call: Call, value: Value, changed: Value) -> Value:
    if call.is_weight(value):
        call.weights.add(id(changed))
    return changed


@register("aten.conv_tbc")
def _conv_tbc(call: Call) -> Value:
    """Time, batch, channels; the weight is window, channels in, channels out."""
    value = _channels(call, call["self"], (1, 2), _SLID)
    weight = _channels(call, call["weight"], (1, 2), _WINDOW)
    total = product(call, value, weight, "nc,co->no", (value.shape[0], call.shape[2]))
    factors = tuple(f.moved({0: 1, 1: 2}) for f in total.factors) + fixed_axes(call.ties, call.shape, [0], _LENGTH)
    return pointwise_values(call.ties, [Value(call.shape, factors, total.zero), call["bias"]], call.shape, _ADD)
