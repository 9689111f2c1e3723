"""Convolutions: channels are contracted like a matrix product, the axes they slide over stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Factor, Value, take
from leanrnn.discovery.rules.base import Call, fixed_axes, pin_axes, rule
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.matmul import product
from leanrnn.discovery.rules.pointwise import _ADD, pointwise_values
from leanrnn.discovery.ties import Product, Ties

__all__ = ["fold"]

_SLID, _WINDOW = "is slid over by a convolution", "is the window of a convolution"
_LENGTH = "is the length that comes out of a convolution"


@rule("aten.convolution", "aten._convolution", "aten.convolution_overrideable", kind=Kind.PRODUCT | Kind.STATE)
def _convolution(call: Call) -> Value:
    """A window of one that is not moved looks at one index: that axis passes through."""
    value, weight, bias = call["input"], call["weight"], call.get("bias")
    still = _still(call, weight)
    slid = [a for a in range(2, value.ndim) if a not in still]
    plain = _channels(call, value, (0, 1, *still), _SLID)
    kernel = _channels(call, weight, (0, 1), _WINDOW)
    transposed, groups = bool(call.get("transposed", False)), int(call.get("groups", 1))
    shape = (value.shape[0], *call.shape[1:2], *plain.shape[2:])
    # A window at every place it is laid on, and for every group once.
    laid = value.shape if transposed else call.shape
    often = groups * math.prod(weight.shape[a] * laid[a] for a in slid)
    if groups == 1:
        total = product(call, plain, kernel, _names(len(still), transposed), shape, often)
    elif groups == value.shape[1] and (not transposed or kernel.shape[1] == 1):
        total = _depthwise(call, plain, kernel, shape, often // groups)
    else:
        total = _grouped(call, plain, kernel, groups, transposed, shape, often)
    to = {i: a for i, a in enumerate((0, 1, *still))}
    new = fixed_axes(call.ties, call.shape, slid, _LENGTH)
    result = Value(call.shape, tuple(f.moved(to) for f in total.factors) + new, total.zero)
    if bias is None:
        return result
    column = Value((bias.shape[0],) + (1,) * (value.ndim - 2), bias.factors, bias.zero)
    return pointwise_values(call.ties, [result, column], call.shape, _ADD)


def _still(call: Call, weight: Value) -> list[int]:
    """Axes over which the window is a single index that stays where it is."""

    def at(name: str, axis: int, default: int) -> int:
        numbers = call.get(name) or [default]
        return int(numbers[axis - 2] if len(numbers) > axis - 2 else numbers[0])

    return [
        a
        for a in range(2, weight.ndim)
        if weight.shape[a] == 1 and (at("stride", a, 1), at("padding", a, 0), at("output_padding", a, 0)) == (1, 0, 0)
    ]


def _names(still: int, transposed: bool) -> str:
    places = "xyz"[:still]
    return f"nc{places},{'co' if transposed else 'oc'}->no{places}"


def _channels(call: Call, value: Value, axes: Sequence[int], reason: str) -> Value:
    """A value without the axes that a convolution slides over."""
    others = [a for a in range(value.ndim) if a not in axes]
    to = {a: i for i, a in enumerate(axes)}
    factors = tuple(f.moved(to) for f in pin_axes(call, value, others, reason).factors)
    return _same_role(call, value, Value(tuple(value.shape[a] for a in axes), factors, value.zero))


def _depthwise(call: Call, value: Value, weight: Value, shape: tuple[int, ...], often: int) -> Value:
    """One channel in, one or more out, which leave together."""
    weight_rows = tuple(f for f in weight.on(0) if f.axes == (0,))
    spread = take(_labelled(call.ties, value), 1, np.arange(value.shape[1]).repeat(shape[1] // value.shape[1]))
    rows = Value((shape[1], *(1 for _ in shape[2:])), weight_rows, weight.zero)
    call.ties.pin_value(weight, [1], "is the single channel of a depthwise convolution")
    result = pointwise_values(call.ties, [spread, rows], shape, [(0,), (1,)])
    call.ties.products.append(Product(call.ties.here, often, shape, result.factors))
    return result


def _grouped(
    call: Call, value: Value, weight: Value, groups: int, transposed: bool, shape: tuple[int, ...], often: int
) -> Value:
    """Channel k of each group leaves together with channel k of every other group, so that groups stay equal."""
    names = _names(len(shape) - 2, transposed)
    rows = _same_role(call, weight, fold(call.ties, weight, 0, groups))
    part = (shape[0], shape[1] // groups, *shape[2:])
    once = product(call, fold(call.ties, value, 1, groups), rows, names, part, often)
    return take(_labelled(call.ties, once), 1, np.tile(np.arange(once.shape[1]), groups))


def _labelled(ties: Ties, value: Value) -> Value:
    """Channels of a constant get labels of their own, to hold together what is made of each."""
    new = () if value.on(1) else (Factor.on(1, ties.fresh(value.shape[1])),)
    return replace(value, factors=value.factors + new)


def fold(ties: Ties, value: Value, axis: int, groups: int) -> Value:
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


@rule("aten.conv_tbc", kind=Kind.PRODUCT | Kind.STATE)
def _conv_tbc(call: Call) -> Value:
    """Time, batch, channels; the weight is window, channels in, channels out."""
    value = _channels(call, call["self"], (1, 2), _SLID)
    weight = _channels(call, call["weight"], (1, 2), _WINDOW)
    often = call["weight"].shape[0] * call.shape[0]
    total = product(call, value, weight, "nc,co->no", (value.shape[0], call.shape[2]), often)
    factors = tuple(f.moved({0: 1, 1: 2}) for f in total.factors) + fixed_axes(call.ties, call.shape, [0], _LENGTH)
    return pointwise_values(call.ties, [Value(call.shape, factors, total.zero), call["bias"]], call.shape, _ADD)
