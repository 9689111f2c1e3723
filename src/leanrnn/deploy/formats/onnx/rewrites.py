"""A few operators as others that torch's own translation to ONNX takes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from leanrnn.deploy.formats.onnx.complexes import COMPLEX

__all__ = ["rewritten"]

ATEN = torch.ops.aten


def rewritten(exported: ExportedProgram) -> ExportedProgram:
    """The same program, its graph changed in place where it has to be."""
    for node in list(exported.graph.nodes):
        if change := CHANGES.get(node.target):
            change(node)
    exported.graph_module.recompile()
    return exported


def _split(node: Any) -> None:
    """Into parts whose size is known in a run only, each by itself."""
    x, size, *rest = node.args
    dim, graph = (rest or [node.kwargs.get("dim", 0)])[0], node.graph
    if isinstance(x.meta["val"].shape[dim], int) or any(user.target is not operator.getitem for user in node.users):
        return

    def made(target: Any, args: tuple[Any, ...], value: Any) -> Any:
        new = graph.call_function(target, args)
        new.meta = dict(node.meta) | {"val": value}
        return new

    with graph.inserting_before(node):
        if node.target is ATEN.chunk.default:
            length = made(ATEN.sym_size.int, (x, dim), x.meta["val"].shape[dim])
            up = made(operator.add, (length, size - 1), length.meta["val"] + size - 1)
            size = made(operator.floordiv, (up, size), up.meta["val"] // size)
        for user in list(node.users):
            value = size.meta["val"] if isinstance(size, fx.Node) else size
            ends = [made(operator.mul, (size, user.args[1] + i), value * (user.args[1] + i)) for i in (0, 1)]
            user.replace_all_uses_with(made(ATEN.slice.Tensor, (x, dim, *ends), user.meta["val"]))
            graph.erase_node(user)
    graph.erase_node(node)


def _clamp(node: fx.Node) -> None:
    """Between a whole number and another, which torch takes for a tensor and a number."""
    x, *limits = node.args
    if isinstance(x, fx.Node) and x.meta["val"].is_floating_point():
        node.args = (x, *(float(each) if isinstance(each, int) else each for each in limits))


def _pool(node: Any) -> None:
    """To one number along some axes, all others left: torch's translation keeps the window of the example."""
    x, sizes = node.args
    axes = range(-len(sizes), 0)
    wanted = [each.meta["val"] if isinstance(each, fx.Node) else each for each in sizes]
    one = [axis for axis in axes if isinstance(wanted[axis], int) and wanted[axis] == 1]
    rest = [axis for axis in axes if axis not in one]
    if one and all(str(wanted[axis]) == str(x.meta["val"].shape[axis]) for axis in rest):
        node.target, node.args = ATEN.mean.dim, (x, one, True)


CHANGES: dict[object, Callable[[Any], None]] = COMPLEX | {
    ATEN.split.Tensor: _split,
    ATEN.chunk.default: _split,
    ATEN.clamp.default: _clamp,
    ATEN.adaptive_avg_pool1d.default: _pool,
    ATEN.adaptive_avg_pool2d.default: _pool,
}
