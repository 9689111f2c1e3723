"""Sums of products: matrix products, convolutions, lookups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leanrnn.discovery.labels import Factor, Value, take
from leanrnn.discovery.rules.base import Call, fixed, register
from leanrnn.discovery.rules.pointwise import _ADD, pointwise_values
from leanrnn.discovery.ties import contract

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _product(call: Call, left: Value, right: Value, names: str, shape: tuple[int, ...]) -> Value:
    a, rest = names.split(",")
    b, out = rest.split("->")
    weights = [call.is_weight(left), call.is_weight(right)]
    return contract(call.ties, [(left, a), (right, b)], out, shape, weights)


@register("aten.mm", "aten._int_mm", "aten.matmul")
def _mm(call: Call) -> Value:
    return _product(call, call["self"], call["mat2"], "ij,jk->ik", call.shape)


@register("aten.bmm")
def _bmm(call: Call) -> Value:
    return _product(call, call["self"], call["mat2"], "bij,bjk->bik", call.shape)


@register("aten.mv")
def _mv(call: Call) -> Value:
    return _product(call, call["self"], call["vec"], "ij,j->i", call.shape)


@register("aten.dot", "aten.vdot")
def _dot(call: Call) -> Value:
    return _product(call, call["self"], call.get("tensor", call.get("other")), "i,i->", call.shape)


@register("aten.ger", "aten.outer")
def _outer(call: Call) -> Value:
    return _product(call, call["self"], call["vec2"], "i,j->ij", call.shape)


@register("aten.addmm", "aten._addmm_activation")
def _addmm(call: Call) -> Value:
    product = _product(call, call["mat1"], call["mat2"], "ij,jk->ik", call.shape)
    return _added(call, product)


@register("aten.baddbmm")
def _baddbmm(call: Call) -> Value:
    return _added(call, _product(call, call["batch1"], call["batch2"], "bij,bjk->bik", call.shape))


@register("aten.addbmm")
def _addbmm(call: Call) -> Value:
    return _added(call, _product(call, call["batch1"], call["batch2"], "bij,bjk->ik", call.shape))


@register("aten.addmv")
def _addmv(call: Call) -> Value:
    return _added(call, _product(call, call["mat"], call["vec"], "ij,j->i", call.shape))


@register("aten.addr")
def _addr(call: Call) -> Value:
    return _added(call, _product(call, call["vec1"], call["vec2"], "i,j->ij", call.shape))


def _added(call: Call, product: Value) -> Value:
    if call.get("beta", 1) == 0:
        return product
    return pointwise_values(call.ties, [product, call["self"]], call.shape, _ADD)


@register("aten.linear")
def _linear(call: Call) -> Value:
    value: Value = call["input"]
    batch = _LETTERS[: value.ndim - 1]
    product = _product(call, value, call["weight"], f"{batch}y,zy->{batch}z", call.shape)
    bias = call.get("bias")
    return product if bias is None else pointwise_values(call.ties, [product, bias], call.shape, _ADD)


@register("aten._trilinear")
def _trilinear(call: Call) -> Value:
    """``nn.Bilinear``: ``out[n,o] = sum_ij x1[n,i] W[o,i,j] x2[n,j]`` with axes inserted by ``expand`` lists."""
    operands = []
    weights = []
    total = max(call[f"i{i}"].ndim + len(call[f"expand{i}"]) for i in (1, 2, 3))
    for i in (1, 2, 3):
        value: Value = call[f"i{i}"]
        letters = [c for a, c in enumerate(_LETTERS[:total]) if a not in call[f"expand{i}"]]
        operands.append((value, "".join(letters)))
        weights.append(call.is_weight(value))
    out = "".join(c for a, c in enumerate(_LETTERS[:total]) if a not in call["sumdim"])
    return contract(call.ties, operands, out, call.shape, weights)


@register("aten.convolution", "aten._convolution", "aten.convolution_overrideable")
def _convolution(call: Call) -> Value:
    """Channels are contracted like a matrix product; the convolution slides over the other axes, which therefore
    stay."""
    value, weight, bias = call["input"], call["weight"], call.get("bias")
    spatial = list(range(2, value.ndim))
    call.ties.pin_value(value, spatial, "is slid over by a convolution")
    call.ties.pin_value(weight, spatial, "is the window of a convolution")
    plain = _plain(value, (0, 1))
    kernel = _plain(weight, (0, 1))
    if call.is_weight(weight):
        call.weights.add(id(kernel))
    order = "oc" if not call.get("transposed", False) else "co"
    if call.get("groups", 1) == 1:
        product = _product(call, plain, kernel, f"nc,{order}->no", (value.shape[0], call.shape[1]))
    else:
        product = _grouped(call, plain, kernel)
    result = Value(call.shape, product.factors + _spatial(call), product.zero)
    if bias is None:
        return result
    column = Value((bias.shape[0],) + (1,) * len(spatial), tuple(f.moved({0: 0}) for f in bias.factors))
    return pointwise_values(call.ties, [result, column], call.shape, _ADD)


def _plain(value: Value, axes: tuple[int, ...]) -> Value:
    factors = tuple(f for f in value.factors if set(f.axes) <= set(axes))
    return Value(tuple(value.shape[a] for a in axes), factors, value.zero)


def _spatial(call: Call) -> tuple[Factor, ...]:
    reason = "is the length that comes out of a convolution"
    return tuple(fixed(call.ties, call.shape, a, reason) for a in range(2, len(call.shape)))


def _grouped(call: Call, value: Value, weight: Value) -> Value:
    """Depthwise: one channel in, one or more out, which leave together. Any other grouping sees blocks of channels."""
    groups, channels = int(call["groups"]), value.shape[1]
    out_channels = call.shape[1]
    each = out_channels // groups
    if groups == channels and not call.get("transposed", False):
        repeated = np.arange(channels).repeat(each)
        spread = take(value, 1, repeated)
        rows = Value((1, out_channels), tuple(f.moved({0: 1}) for f in weight.on(0)))
        call.ties.pin_value(weight, [1], "is the single input channel of a depthwise convolution")
        return pointwise_values(call.ties, [spread, rows], (value.shape[0], out_channels), [(0,), (1,)])
    for side, axes in ((value, [1]), (weight, [0, 1])):
        call.ties.pin_value(side, axes, "is a channel of a grouped convolution")
    batch = tuple(f for f in value.factors if f.main == {0})
    shape = (value.shape[0], out_channels)
    return Value(shape, (*batch, fixed(call.ties, shape, 1, "is a channel of a grouped convolution")))


@register("aten.embedding")
def _embedding(call: Call) -> Value:
    weight, indices = call["weight"], call["indices"]
    call.ties.pin_value(weight, [0], "is indexed by data")
    n = indices.ndim
    columns = tuple(f.moved({1: n}) for f in weight.on(1))
    batch = tuple(replace(f, zero=np.zeros_like(f.zero)) for f in indices.factors)
    return Value(call.shape, batch + columns)


@register("aten._embedding_bag", "aten._embedding_bag_forward_only", "aten.embedding_bag")
def _embedding_bag(call: Call) -> list[Value]:
    weight = call["weight"]
    call.ties.pin_value(weight, [0], "is indexed by data")
    columns = tuple(f.moved({1: 1}) for f in weight.on(1))
    first = Value(call.shape, (fixed(call.ties, call.shape, 0, "is a batch of bags"), *columns))
    return [first] + [Value(s) for s in call.shapes[1:]]


@register("aten._weight_norm_interface", "aten._weight_norm")
def _weight_norm(call: Call) -> list[Value]:
    """``w = v * g / |v|``: a row of ``w`` is zero when its ``g`` is; a zero row of ``v`` would divide by zero."""
    v, g, dim = call["v"], call["g"], int(call["dim"])
    for factor in v.on(dim):
        call.ties.carried.append(factor.labels.reshape(-1))
    lines = tuple(replace(f, zero=np.zeros_like(f.zero)) if f.main == {dim} else f for f in v.factors)
    weight = pointwise_values(call.ties, [replace(v, factors=lines), g], v.shape, [(0,), (1,)])
    norms = [Value(s) for s in call.shapes[1:]]
    return [weight, *norms]
