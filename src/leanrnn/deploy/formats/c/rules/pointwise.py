"""Operators on every number by itself, and on pairs of them."""

from __future__ import annotations

from torch import Tensor

from leanrnn.deploy.formats.c.code import number
from leanrnn.deploy.formats.c.lowering import RULES, Call, Lowering, Rule, rule

__all__: list[str] = []

UNARY = {
    "relu": "{0} < 0.0f ? 0.0f : {0}",
    "tanh": "hyperbolic_tangent({0})",
    "sigmoid": "sigmoid({0})",
    "silu": "{0} * sigmoid({0})",
    "exp": "exponential({0})",
    "neg": "-{0}",
    "square": "{0} * {0}",
    "reciprocal": "1.0f / {0}",
    "abs": "{0} < 0.0f ? -{0} : {0}",
    "relu6": "{0} < 0.0f ? 0.0f : {0} > 6.0f ? 6.0f : {0}",
    "hardsigmoid": "{0} < -3.0f ? 0.0f : {0} > 3.0f ? 1.0f : ({0} + 3.0f) / 6.0f",
    "hardswish": "{0} < -3.0f ? 0.0f : {0} > 3.0f ? {0} : {0} * ({0} + 3.0f) / 6.0f",
    "selu": "0x1.0cfabep+0f * ({0} < 0.0f ? 0x1.ac5dp+0f * (exponential({0}) - 1.0f) : {0})",
    "sqrt": "sqrtf({0})",
    "rsqrt": "1.0f / sqrtf({0})",
    "log": "logf({0})",
    "log1p": "log1pf({0})",
    "sin": "sinf({0})",
    "cos": "cosf({0})",
    "softsign": "{0} / (1.0f + fabsf({0}))",
    "log_sigmoid": "({0} < 0.0f ? {0} : 0.0f) - log1pf(exponential({0} < 0.0f ? {0} : -{0}))",
    "mish": "{0} * hyperbolic_tangent({0} > 20.0f ? {0} : log1pf(exponential({0})))",
}
BINARY = {
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "maximum": "{0} < {1} ? {1} : {0}",
    "minimum": "{0} > {1} ? {1} : {0}",
    "prelu": "{0} < 0.0f ? {0} * {1} : {0}",
}


def _same(low: Lowering, call: Call, formula: str, *operands: Tensor | float) -> None:
    low.write(call.result, call.node.name)
    low.each(call.result, formula, *operands)


def _unary(formula: str) -> Rule:
    return lambda low, call: _same(low, call, formula, *list(call.given.values())[:1])


def _binary(formula: str) -> Rule:
    def write(low: Lowering, call: Call) -> None:
        if call.given.get("rounding_mode"):
            raise low.refused(call, "rounds, which a file of C does not. Leave it out of the model.")
        a, b, *_ = call.given.values()
        _same(low, call, formula, a, _of_channels(a, b) if str(call.node.target).startswith("aten.prelu") else b)

    return write


def _of_channels(x: Tensor, weight: Tensor) -> Tensor:
    """A number for each channel, where they stand in ``x``."""
    return weight.view(-1, *[1] * (x.dim() - 2)) if weight.numel() > 1 and x.dim() > 1 else weight


RULES.update({name: _unary(formula) for name, formula in UNARY.items()})
RULES.update({name: _binary(formula) for name, formula in BINARY.items()})


@rule(
    "clone",
    "contiguous",
    "_to_copy",
    "to",
    "reshape",
    "flatten",
    "alias",
    "detach",
    "expand_as",
    "repeat",
    "index_select",
)
def _copied(low: Lowering, call: Call) -> None:
    """What torch copies it copies in the order of the new tensor."""
    x = call["self"]
    if x.numel() != call.result.numel():
        raise low.refused(call, "makes more numbers than it reads, or fewer. Use expand, or a slice.")
    _same(
        low,
        call,
        "{0}",
        x.reshape(call.result.shape) if low.computed(x.reshape(call.result.shape)) else _flat(low, x, call),
    )


def _flat(low: Lowering, x: Tensor, call: Call) -> Tensor:
    copy = x.contiguous()
    low.kept.append(copy)
    low.write(copy, call.node.name)
    low.each(copy, "{0}", x)
    return copy.view(call.result.shape)


@rule("copy")
def _copy(low: Lowering, call: Call) -> None:
    _same(low, call, "{0}", call["src"])


@rule("add", "sub", "rsub")
def _add(low: Lowering, call: Call) -> None:
    a, b = call["self"], call["other"]
    word = str(call.node.target)
    if "rsub" in word:
        a, b = b, a
    sign = "+" if "add" in word else "-"
    times = "" if call["alpha"] == 1 else f"{number(float(call['alpha']))} * "
    formula = (
        f"{{0}} {sign} {times}{{1}}"
        if "rsub" not in word
        else f"{times.strip(' *') or ''}{' * ' if times else ''}{{0}} - {{1}}"
    )
    _same(low, call, formula, a, b)


@rule("leaky_relu")
def _leaky(low: Lowering, call: Call) -> None:
    _same(low, call, "{0} < 0.0f ? {1} * {0} : {0}", call["self"], call["negative_slope"])


@rule("elu")
def _elu(low: Lowering, call: Call) -> None:
    negative = number(float(call["alpha"] * call["scale"]))
    inside, scale = number(float(call["input_scale"])), number(float(call["scale"]))
    _same(
        low, call, f"{{0}} < 0.0f ? {negative} * (exponential({inside} * {{0}}) - 1.0f) : {scale} * {{0}}", call["self"]
    )


@rule("softplus")
def _softplus(low: Lowering, call: Call) -> None:
    beta, limit = number(float(call["beta"])), number(float(call["threshold"] / call["beta"]))
    _same(low, call, f"{{0}} > {limit} ? {{0}} : log1pf(exponential({beta} * {{0}})) / {beta}", call["self"])


@rule("gelu")
def _gelu(low: Lowering, call: Call) -> None:
    x = "{0}"
    if call["approximate"] == "tanh":
        inner = f"0x1.988454p-1f * ({x} + 0.044715f * {x} * {x} * {x})"
        _same(low, call, f"0.5f * {x} * (1.0f + hyperbolic_tangent({inner}))", call["self"])
    else:
        _same(low, call, f"0.5f * {x} * (1.0f + erff(0x1.6a09e6p-1f * {x}))", call["self"])


@rule("hardtanh", "clamp")
def _clamp(low: Lowering, call: Call) -> None:
    ends = [call.given.get(a, call.given.get(b)) for a, b in (("min_val", "min"), ("max_val", "max"))]
    if any(isinstance(each, Tensor) for each in ends):
        raise low.refused(call, "has limits that are tensors. Use torch.maximum and torch.minimum.")
    low_end, high_end = (None if each is None else number(float(each)) for each in ends)
    below = "" if low_end is None else f"{{0}} < {low_end} ? {low_end} : "
    above = "" if high_end is None else f"{{0}} > {high_end} ? {high_end} : "
    _same(low, call, f"{below}{above}{{0}}", call["self"])


@rule("clamp_min")
def _at_least(low: Lowering, call: Call) -> None:
    _same(low, call, "{0} < {1} ? {1} : {0}", call["self"], call["min"])


@rule("clamp_max")
def _at_most(low: Lowering, call: Call) -> None:
    _same(low, call, "{0} > {1} ? {1} : {0}", call["self"], call["max"])


@rule("pow")
def _pow(low: Lowering, call: Call) -> None:
    exponent = call["exponent"]
    if isinstance(exponent, Tensor) or exponent not in (2, 3, 0.5, -1):
        raise low.refused(call, "has an exponent other than 2, 3, 0.5 and -1. Write it with those.")
    formula = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "sqrtf({0})", -1: "1.0f / {0}"}[exponent]
    _same(low, call, formula, call["self"])


@rule("glu")
def _glu(low: Lowering, call: Call) -> None:
    a, b = call["self"].chunk(2, call["dim"])
    _same(low, call, "{0} * sigmoid({1})", a, b)
