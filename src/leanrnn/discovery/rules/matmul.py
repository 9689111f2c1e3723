"""Sums of products."""

from __future__ import annotations

from dataclasses import replace

from leanrnn.discovery.contract import contract
from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, fixed_axes, rule, summed, unsure
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.pointwise import _ADD, Zeros, pointwise_values

__all__ = ["product"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def product(call: Call, left: Value, right: Value, names: str, shape: tuple[int, ...], often: int = 1) -> Value:
    """``left`` times ``right`` in einsum's letters, taken so often."""
    a, rest = names.split(",")
    b, out = rest.split("->")
    weights = [call.is_weight(left), call.is_weight(right)]
    return contract(call.ties, [(left, a), (right, b)], out, shape, weights, often)


@rule("aten.mm", "aten._int_mm", kind=Kind.PRODUCT | Kind.STATE)
def _mm(call: Call) -> Value:
    return product(call, call["self"], call["mat2"], "ij,jk->ik", call.shape)


@rule("aten.bmm", kind=Kind.PRODUCT)
def _bmm(call: Call) -> Value:
    return product(call, call["self"], call["mat2"], "bij,bjk->bik", call.shape)


@rule("aten.mv", kind=Kind.PRODUCT)
def _mv(call: Call) -> Value:
    return product(call, call["self"], call["vec"], "ij,j->i", call.shape)


@rule("aten.dot", "aten.vdot", kind=Kind.PRODUCT)
def _dot(call: Call) -> Value:
    return product(call, call["self"], call.get("tensor", call.get("other")), "i,i->", call.shape)


@rule("aten.addmm", "aten._addmm_activation", kind=Kind.PRODUCT | Kind.STATE, summand="self")
def _addmm(call: Call) -> Value:
    return _added(call, product(call, call["mat1"], call["mat2"], "ij,jk->ik", call.shape))


@rule("aten.baddbmm", kind=Kind.PRODUCT, summand="self")
def _baddbmm(call: Call) -> Value:
    return _added(call, product(call, call["batch1"], call["batch2"], "bij,bjk->bik", call.shape))


@rule("aten.addbmm", kind=Kind.PRODUCT, summand="self")
def _addbmm(call: Call) -> Value:
    return _added(call, product(call, call["batch1"], call["batch2"], "bij,bjk->ik", call.shape))


@rule("aten.addmv", kind=Kind.PRODUCT, summand="self")
def _addmv(call: Call) -> Value:
    return _added(call, product(call, call["mat"], call["vec"], "ij,j->i", call.shape))


@rule("aten.addr", kind=Kind.PRODUCT, summand="self")
def _addr(call: Call) -> Value:
    return _added(call, product(call, call["vec1"], call["vec2"], "i,j->ij", call.shape))


def _added(call: Call, total: Value) -> Value:
    zeros: Zeros = _ADD if call.get("beta", 1) != 0 else [(0,)]
    return pointwise_values(call.ties, [total, call["self"]], call.shape, zeros)


@rule("aten.linear", kind=Kind.PRODUCT | Kind.STATE)
def _linear(call: Call) -> Value:
    value: Value = call["input"]
    batch = _LETTERS[: value.ndim - 1]
    total = product(call, value, call["weight"], f"{batch}y,zy->{batch}z", call.shape)
    bias = call.get("bias")
    return total if bias is None else pointwise_values(call.ties, [total, bias], call.shape, _ADD)


@rule("aten._trilinear", kind=Kind.PRODUCT)
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


@rule("aten._weight_norm_interface")
def _weight_norm(call: Call) -> list[Value]:
    """``w = v * g / |v|``: a row of ``w`` is zero when its ``g`` is; a zero row of ``v`` would divide by zero."""
    v, g, dim = call["v"], call["g"], int(call["dim"])
    for factor in v.on(dim):
        call.ties.carried.append(factor.labels.reshape(-1))
    lines = tuple(unsure(f) if f.main == {dim} else f for f in v.factors)
    summed(call, v, [a for a in range(v.ndim) if a != dim])
    weight = pointwise_values(call.ties, [replace(v, factors=lines, zero=False), g], v.shape, [(0,), (1,)])
    return [weight, *(Value(s, fixed_axes(call.ties, s, None, "is a norm of weights")) for s in call.shapes[1:])]
