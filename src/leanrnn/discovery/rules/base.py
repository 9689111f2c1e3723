"""The registry of rules and what a rule is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from leanrnn.discovery.labels import Factor, Value
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.ties import Ties, across, harden

__all__ = ["Call", "Known", "Rule", "Write", "find", "fixed", "rule", "write_of", "written"]

_RULES: dict[str, Known] = {}
_WRITES: dict[str, Write] = {}


class Call:
    """One executed operator with labelled values in place of tensors; ``call["name"]`` is an argument of its schema."""

    def __init__(self, ties: Ties, op: Any, arguments: dict[str, Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.ties = ties
        self.op = op
        self.arguments = arguments
        self.shapes = shapes
        self.weights: set[int] = set()
        self.fused = False

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first result."""
        return self.shapes[0]

    @property
    def name(self) -> str:
        """Short name for a message."""
        return self.op.overloadpacket.__name__.strip("_") if hasattr(self.op, "overloadpacket") else str(self.op)

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or ``default`` where the schema has none of that name."""
        return self.arguments.get(name, default)

    def tensors(self) -> list[Value]:
        """All labelled arguments, lists taken apart, without those that are only written to (``out=``)."""
        found: list[Value] = []
        outs = {a.name for a in self.op._schema.arguments if a.is_out}
        for value in (v for name, v in self.arguments.items() if name not in outs):
            found += [value] if isinstance(value, Value) else []
            found += [v for v in value if isinstance(v, Value)] if isinstance(value, (list, tuple)) else []
        return found

    def is_weight(self, value: Value) -> bool:
        """Whether the value is made of parameters alone."""
        return id(value) in self.weights


Rule = Callable[[Call], "Value | Sequence[Value | None]"]
Write = Callable[[Call, Value, Value, int], Value]
"""Of a view: its call, what it is a view of, what is written into it, and into which of its results."""


@dataclass(frozen=True)
class Known:
    """All that is known of an operator."""

    rule: Rule
    soft: bool = False
    """Whether the rule takes stacked tensors in parts."""
    kind: Kind = Kind.NONE
    summand: str = "bias"
    """Of a product: the argument that it adds at the end, if it has one of that name. It is no factor: a bias."""


def rule(*names: str, soft: bool = False, kind: Kind = Kind.NONE, summand: str = "bias") -> Callable[[Rule], Rule]:
    """Register the rule of operators, and all else that is known of them, by name::

        @rule("aten.addmm", kind=Kind.PRODUCT | Kind.STATE, summand="self")
        def _addmm(call: Call) -> Value: ...

    A name may have an overload, ``aten.max.other``. The same holds for what works in place, ``aten.addmm_``.
    """

    def add(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = Known(function, soft, kind, summand)
        return function

    return add


def written(*names: str) -> Callable[[Write], Write]:
    """Register what a write into a view makes of the tensor that is viewed (``out[t] = h``)."""

    def add(function: Write) -> Write:
        for name in names:
            _WRITES[name] = function
        return function

    return add


def rule_named(name: str) -> Rule:
    """The rule that is registered under a name."""
    return _RULES[name].rule


def write_of(op: Any) -> Write | None:
    """What a write into a view of this operator does."""
    return _WRITES.get(str(op.overloadpacket))


def find(op: Any) -> Known | None:
    """What is known of an operator: by its name, by its name without the in-place underscore or the suffix of a view
    that copies, or by its tags."""
    name = str(op.overloadpacket)
    plain = name.rstrip("_")
    for candidate in (f"{plain}.{op._overloadname}", name, plain, plain.removesuffix("_copy")):
        if candidate in _RULES:
            return _RULES[candidate]
    tagged = torch.Tag.pointwise in op.tags or _functional_is_pointwise(plain)
    return _RULES["pointwise"] if tagged else None


def _functional_is_pointwise(name: str) -> bool:
    namespace, _, base = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    overloads = packet.overloads() if packet is not None else []
    return any(torch.Tag.pointwise in getattr(packet, o).tags for o in overloads)


def fixed(ties: Ties, shape: Sequence[int], axis: int, reason: str) -> Factor:
    """Fresh labels along ``axis`` that cannot leave."""
    return Factor.on(axis, ties.fresh(shape[axis], reason))


def fixed_axes(ties: Ties, shape: Sequence[int], axes: Sequence[int] | None, reason: str) -> tuple[Factor, ...]:
    """Fresh labels that cannot leave along several axes, or along all."""
    chosen = range(len(shape)) if axes is None else axes
    return tuple(fixed(ties, shape, a, reason) for a in chosen if a < len(shape))


def pin_axes(call: Call, value: Value, axes: Sequence[int], reason: str) -> Value:
    """What is left of a value along whose ``axes`` nothing can leave: its labels on the other axes."""
    value = across(call.ties, value, axes)
    call.ties.pin_value(value, axes, reason)
    return replace(value, factors=tuple(f for f in value.factors if not set(f.axes) & set(axes)))


def summed(call: Call, value: Value, axes: Sequence[int]) -> Value:
    """What is left of a value after a sum over ``axes``: exact as long as what leaves along them is zero."""
    spared = []
    for factor in value.factors:
        if factor.main & set(axes):
            call.ties.need_zero(
                factor.labels, factor.zero, f"is summed over by {call.name} and is not zero when the component is"
            )
            call.ties.collapse(factor, [a for a in factor.axes if a not in axes])
        else:
            spared.append(factor)
    return replace(value, factors=tuple(spared))


def unsure(factor: Factor) -> Factor:
    """The same labels on something that never counts as zero."""
    return replace(factor, zero=np.zeros_like(factor.zero))


def unsure_value(value: Value) -> Value:
    """The labels of a value that never counts as zero: an index, a logarithm."""
    return replace(value, factors=tuple(unsure(f) for f in value.factors), zero=False)


def whole(call: Call, inward: str, outward: str) -> list[Value]:
    """Everything the operator touches stays, and so does what comes out."""
    for value in call.tensors():
        hard = harden(call.ties, value)
        call.ties.pin_value(hard, range(hard.ndim), inward)
    return [Value(s, fixed_axes(call.ties, s, None, outward)) for s in call.shapes]


def seen_whole(call: Call) -> list[Value]:
    """What an operator does that sees every value it is given."""
    return whole(call, f"is seen whole by {call.name}", f"comes out of {call.name}")


def without_rule(call: Call) -> list[Value]:
    """What an operator without a rule does: everything it touches stays, and the report says so."""
    text = f"{call.name}, an operator without a rule"
    return whole(call, f"meets {text}", f"comes out of {text}")


def axes_of(value: Value, dim: Any) -> list[int]:
    """A ``dim`` argument as axes counted from the front; ``None`` or empty means all."""
    if not value.ndim:
        return []
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(value.ndim))
    return [value.axis(int(d)) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def drop_axes(value: Value, axes: Sequence[int], keepdim: bool, shape: tuple[int, ...]) -> Value:
    """The value after ``axes`` were reduced; labels that lie on other axes stay."""
    left = [a for a in range(value.ndim) if keepdim or a not in axes]
    to = {a: i for i, a in enumerate(left)}
    factors = tuple(f.moved(to) for f in value.factors if not set(f.axes) & set(axes))
    return Value(shape, factors, value.zero)
