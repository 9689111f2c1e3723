"""``leanrnn.register``: teach discovery an operator of your own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from leanrnn.discovery.instead import LIKE, instead_of
from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, Rule, fixed_axes, pin_axes, rule_named, unsure_value
from leanrnn.discovery.rules.base import rule as add_rule
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.rules.pointwise import pointwise_values
from leanrnn.errors import OperatorError

__all__ = ["register"]

Axes = list[tuple[str, bool]]
"""Of one tensor: the name of each axis, and whether it stands in brackets."""


def register(
    operator: Any,
    rule: str | Rule | None = None,
    *,
    like: Callable[..., Any] | None = None,
    kind: str | Kind | None = None,
) -> None:
    """Teach ``discover`` an operator it does not know: a ``torch.library.custom_op``, a C++ or a Triton kernel.

    The surest way is a function in plain PyTorch that does the same. It is followed in place of the operator, and its
    numbers are compared with the operator's. The operator itself still runs everywhere else::

        leanrnn.register("mylib::scan", like=scan_reference)

    Where every index of an axis is on its own, a word or a pattern is enough. A name stands for the same axis wherever
    it occurs; a name in brackets is an axis that the operator looks along, which stays as it is::

        leanrnn.register("mylib::gate", "pointwise")
        leanrnn.register("mylib::scan", "[time] batch hidden, hidden -> [time] batch hidden", kind="scan")

    A kernel inside a ``torch.autograd.Function`` gets a reference in the same way::

        leanrnn.register(Scan, like=scan_reference)

    Arguments:
        operator: ``"mylib::scan"``, ``torch.ops.mylib.scan``, an overload of it, or what ``custom_op`` returned; or a
            subclass of ``torch.autograd.Function``.
        rule: ``"pointwise"``, a pattern, or a function of a ``leanrnn.discovery.rules.Call``.
        like: a function with the operator's arguments (those of ``apply``) that returns what it returns.
        kind: what discovery should know besides, a ``leanrnn.discovery.rules.Kind`` or its name. ``"scan"``: it goes
            along a sequence and carries something on, so the widths it is given are recurrent.
    """
    if getattr(operator, "__name__", "") == "apply":
        operator = getattr(operator, "__self__", operator)  # Scan.apply is as good as Scan
    if isinstance(operator, type) and issubclass(operator, torch.autograd.Function):
        if rule is not None or like is None:
            raise OperatorError(
                f"register({operator.__name__}) needs like=, a function of what apply takes, without ctx."
            )
        LIKE[operator] = _callable(operator.__name__, like)
        return
    name = _name(operator)
    if (rule is None) == (like is None):
        raise OperatorError(f"register({name!r}) needs one of a rule and like=. Give a word, a pattern or a function.")
    if like is not None:
        if kind is not None:
            raise OperatorError(f"register({name!r}): kind= goes with a rule. The operators of like= have kinds.")
        LIKE[name] = _callable(name, like)
    else:
        LIKE.pop(name, None)
        given = Kind.POINTWISE if rule == "pointwise" else Kind.NONE
        add_rule(name, kind=given if kind is None else _kind(name, kind))(_rule(name, rule))
    instead_of.cache_clear()


def _name(operator: Any) -> str:
    """The operator's name as rules know it, ``mylib.scan``."""
    text = getattr(operator, "_qualname", operator)  # what torch.library.custom_op returns
    if isinstance(text, torch._ops.OpOverload):
        text = text.overloadpacket
    if isinstance(text, torch._ops.OpOverloadPacket):
        return str(text)
    match = re.fullmatch(r"(\w+)(?:::|\.)(\w+)(?:\.\w+)?", text) if isinstance(text, str) else None
    if match is None:
        raise OperatorError(f"{operator!r} is no operator. Give 'library::name' or torch.ops.library.name.")
    if not hasattr(getattr(torch.ops, match[1]), match[2]):
        raise OperatorError(
            f"there is no operator {match[1]}::{match[2]}. Import what defines it before you register its rule."
        )
    return f"{match[1]}.{match[2]}"


def _callable(name: str, function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise OperatorError(f"what is registered for {name} is {function!r}. Give a function.")
    checked: Callable[..., Any] = function
    return checked


def _kind(name: str, kind: Any) -> Kind:
    if isinstance(kind, Kind):
        return kind
    names = {word.lower(): known for word, known in Kind.__members__.items()}
    if kind not in names:
        raise OperatorError(f"register({name!r}): there is no kind {kind!r}. Use one of {', '.join(names)}.")
    return names[kind]


def _rule(name: str, rule: str | Rule | None) -> Rule:
    if isinstance(rule, str):
        return rule_named("pointwise") if rule == "pointwise" else _pattern(name, rule)
    return _callable(name, rule)


def _pattern(name: str, text: str) -> Rule:
    """The rule of a pattern such as ``"[t] b h, h -> [t] b h"``."""
    left, arrow, right = text.partition("->")
    inputs, outputs = _parse(name, text, left), _parse(name, text, right)
    free = [{n for axes in side for n, whole in axes if not whole} for side in (inputs, outputs)]
    odd = sorted(free[0] ^ free[1])
    if not arrow or odd:
        raise OperatorError(
            f"pattern {text!r} for {name}: {odd[0] if odd else 'what there is'} is on one side only. An axis that the "
            "operator looks along stands in brackets, [time]; for a sum over an axis give like= a function."
        )

    def apply(call: Call) -> Sequence[Value]:
        values = call.tensors()
        _check(name, text, inputs, values, "inputs")
        _check(name, text, outputs, [Value(s) for s in call.shapes], "results")
        names = sorted(free[0])
        sizes: dict[str, int] = {}
        for value, axes in zip(values, inputs, strict=True):
            for (word, _), size in zip(axes, value.shape, strict=True):
                if sizes.setdefault(word, size) != size:
                    raise OperatorError(f"pattern {text!r} for {name}: {word} is {sizes[word]} long and {size} long.")
        space = tuple(sizes[n] for n in names)
        spread = [_spread(call, v, axes, names) for v, axes in zip(values, inputs, strict=True)]
        met = unsure_value(pointwise_values(call.ties, spread, space, []))
        return [_collect(call, met, axes, names, s) for axes, s in zip(outputs, call.shapes, strict=True)]

    return apply


def _parse(name: str, text: str, side: str) -> list[Axes]:
    tensors = []
    for part in side.split(","):
        words = part.split()
        if any(not re.fullmatch(r"\w+|\[\w+\]", w) for w in words) or len(set(words)) < len(words):
            raise OperatorError(f"pattern {text!r} for {name}: {part.strip()!r} is no list of different names.")
        tensors.append([(w.strip("[]"), w.startswith("[")) for w in words])
    return tensors


def _check(name: str, text: str, pattern: list[Axes], values: Sequence[Value], what: str) -> None:
    expected, given = [len(axes) for axes in pattern], [v.ndim for v in values]
    if expected != given:
        raise OperatorError(
            f"pattern {text!r} for {name} has {what} of {expected} axes; in this model they have {given}."
        )


def _spread(call: Call, value: Value, axes: Axes, names: list[str]) -> Value:
    """A tensor laid into the space of all free names; what stands in brackets is gone."""
    spared = pin_axes(call, value, [a for a, (_, whole) in enumerate(axes) if whole], f"is seen whole by {call.name}")
    to = {a: names.index(n) for a, (n, whole) in enumerate(axes) if not whole}
    shape = [1] * len(names)
    for a, place in to.items():
        shape[place] = value.shape[a]
    return Value(tuple(shape), tuple(f.moved(to) for f in spared.factors), value.zero)


def _collect(call: Call, met: Value, axes: Axes, names: list[str], shape: tuple[int, ...]) -> Value:
    to = {names.index(n): a for a, (n, whole) in enumerate(axes) if not whole}
    lost = [names.index(n) for n in names if names.index(n) not in to]
    spared = pin_axes(call, met, lost, f"is not in every result of {call.name}")
    new = fixed_axes(call.ties, shape, [a for a, (_, whole) in enumerate(axes) if whole], f"comes out of {call.name}")
    return Value(shape, tuple(f.moved(to) for f in spared.factors) + new)
