"""Operators on complex numbers as operators on pairs of real ones, which have an axis of their own behind all others.

Torch's own translation to ONNX has complex numbers as such pairs too, but takes few operators for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher

__all__ = ["COMPLEX"]

ATEN = torch.ops.aten


def _pad(make: _Make, x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    return None if mode != "constant" or value else make(ATEN.pad.default, x, [0, 0, *pad])


def _unfold(make: _Make, x: Any, dim: int, size: int, step: int) -> Any:
    """The window goes behind the pairs, and has to change places with them."""
    windows = make(ATEN.unfold.default, x, _axis(dim, _dims(x) - 1), size, step)
    return make(ATEN.transpose.int, windows, -1, -2)


def _unsqueeze(make: _Make, x: Any, dim: int) -> Any:
    return make(ATEN.unsqueeze.default, x, _axis(dim, _dims(x)))


def _select(make: _Make, x: Any, dim: int, index: Any) -> Any:
    return make(ATEN.select.int, x, _axis(dim, _dims(x) - 1), index)


def _expand(make: _Make, x: Any, size: Any) -> Any:
    return make(ATEN.expand.default, x, [*size, 2])


def _einsum(make: _Make, equation: str, factors: Any) -> Any:
    """Of two factors: (a + bi)(c + di) = ac - bd + (ad + bc)i."""
    if len(factors) != 2:
        return None
    (a, b), (c, d) = [[make(ATEN.select.int, each, -1, part) for part in (0, 1)] for each in factors]

    def product(first: Any, second: Any) -> Any:
        return make(ATEN.einsum.default, equation, [first, second])

    real = make(ATEN.sub.Tensor, product(a, c), product(b, d))
    return make(ATEN.stack.default, [real, make(ATEN.add.Tensor, product(a, d), product(b, c))], -1)


class _Make:
    """Nodes before another one, with the shapes that torch finds for them."""

    def __init__(self, before: fx.Node) -> None:
        self.before, self.mode = before, before.meta["val"].fake_mode

    def __call__(self, target: Any, *args: Any) -> fx.Node:
        with self.before.graph.inserting_before(self.before):
            node = self.before.graph.call_function(target, args)
        with enable_python_dispatcher(), self.mode:  # without it a length becomes a number
            value = target(*fx.node.map_arg(args, lambda each: each.meta["val"]))
        node.meta = dict(self.before.meta) | {"val": value}
        return node


def _in_pairs(rule: Callable[..., Any]) -> Callable[[fx.Node], None]:
    def change(node: fx.Node) -> None:
        if not all(_is_complex(each) for each in node.all_input_nodes if isinstance(each.meta["val"], Tensor)):
            return
        make = _Make(node)

        def real(each: fx.Node) -> fx.Node:
            return make(ATEN.view_as_real.default, each) if _is_complex(each) else each

        if (found := rule(make, *fx.node.map_arg(node.args, real), **node.kwargs)) is not None:
            node.replace_all_uses_with(make(ATEN.view_as_complex.default, found))
            node.graph.erase_node(node)

    return change


def _is_complex(node: fx.Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, Tensor) and value.is_complex()


def _dims(x: fx.Node) -> int:
    return int(x.meta["val"].dim())


def _axis(axis: int, dims: int) -> int:
    """Counted from the front, where pairs do not matter."""
    return axis % dims


COMPLEX: dict[object, Callable[[fx.Node], None]] = {
    ATEN.pad.default: _in_pairs(_pad),
    ATEN.unfold.default: _in_pairs(_unfold),
    ATEN.unsqueeze.default: _in_pairs(_unsqueeze),
    ATEN.select.int: _in_pairs(_select),
    ATEN.expand.default: _in_pairs(_expand),
    ATEN.einsum.default: _in_pairs(_einsum),
}
"""Changes of a node, made where it is of complex numbers."""
