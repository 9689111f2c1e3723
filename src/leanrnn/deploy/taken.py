"""How a traced graph takes a sequence apart and puts results together, brought into the one way that loops are looked
for in: a step is a select, and what was written into a buffer step by step is a stack."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

__all__ = ["apart", "length", "simplified", "steps_of"]

ATEN = torch.ops.aten
END = 1 << 62
"""From here on an end of a slice means the end of the axis."""
FRESH = ("new_zeros", "zeros", "empty", "new_empty", "zeros_like", "empty_like", "new_full", "full", "ones", "new_ones")


def apart(graph: fx.Graph) -> dict[tuple[fx.Node, int], dict[int, fx.Node]]:
    """Sequences and axes along which every step is taken by itself, with the nodes that do."""
    taken: dict[tuple[fx.Node, int], dict[int, fx.Node]] = {}
    for node in graph.nodes:
        if node.target is ATEN.select.int:
            source, axis, step = node.args
            taken.setdefault((source, axis), {})[step] = node
        elif node.target is operator.getitem and node.args[0].target is ATEN.unbind.int:
            source, axis = (*node.args[0].args, 0)[:2]
            taken.setdefault((source, axis), {})[node.args[1]] = node
    return {key: steps for key, steps in taken.items() if steps.keys() == {*range(length(*key))}}


def steps_of(graph: fx.Graph, least: int = 3) -> set[int]:
    """Numbers of steps of what is taken apart in whole, step by step."""
    return {len(steps) for steps in apart(graph).values() if len(steps) >= least}


def length(source: fx.Node, axis: int) -> int:
    """How long an axis is; -1 if that may vary, as what a scan gives does."""
    if "val" not in source.meta:
        return -1
    size = str(source.meta["val"].shape[axis])  # one that turned out to be fixed prints as a number
    return int(size) if size.isdigit() else -1


def simplified(graph: fx.Graph) -> None:
    """The same graph, with selects for pieces of length one and stacks for buffers, in place."""
    for node in list(graph.nodes):
        if node.target is ATEN.slice.Tensor:
            args: list[Any] = list(node.args)
            source, axis, start, end, step = args + [0, None, END, 1][len(args) - 1 :]
            if start in (0, None) and step == 1 and (end is None or (isinstance(end, int) and end >= END)):
                node.replace_all_uses_with(source)
                graph.erase_node(node)
            elif isinstance(start, int) and end == start + 1 and start >= 0 and step == 1:
                _select(graph, node, source, axis, start)
        elif node.target is operator.getitem and node.args[0].target is ATEN.split.Tensor:
            source, size, axis = (*node.args[0].args, 0)[:3]
            if size == 1:
                _select(graph, node, source, axis, node.args[1])
    for node in list(graph.nodes):
        if str(node.target).removeprefix("aten.").partition(".")[0] in FRESH:
            _stack(graph, node)


def _select(graph: fx.Graph, node: fx.Node, source: Any, axis: int, step: int) -> None:
    with graph.inserting_before(node):
        one = graph.call_function(ATEN.select.int, (source, axis, step))
        new = graph.call_function(ATEN.unsqueeze.default, (one, axis))
    new.meta = dict(node.meta)
    one.meta = {key: value for key, value in node.meta.items() if key != "val"}
    node.replace_all_uses_with(new)


def _stack(graph: fx.Graph, buffer: fx.Node) -> None:
    """What reads a buffer that was written as a whole, step by step, reads the stack of what was written."""
    selects = [user for user in buffer.users if user.target is ATEN.select.int]
    copies = [(user.args[2], copy) for user in selects for copy in user.users if copy.target is ATEN.copy_.default]
    written: dict[Any, fx.Node] = dict(copies)
    axes: set[Any] = {user.args[1] for user in selects}
    if len(axes) != 1 or any(len(user.users) != 1 for user in selects):
        return
    axis, order = axes.pop(), {node: i for i, node in enumerate(graph.nodes)}
    readers = [user for user in buffer.users if user not in selects]
    if not readers or written.keys() != {*range(length(buffer, axis))} or len(selects) != len(written):
        return
    values: list[Any] = [written[step].args[1] for step in sorted(written)]
    first = min(readers, key=order.__getitem__)
    late = any(order[copy] > order[first] or copy.users for copy in written.values())
    if late or any(not isinstance(v, fx.Node) or not _fits(v, buffer) for v in values):
        return
    with graph.inserting_before(first):
        new = graph.call_function(ATEN.stack.default, (values, axis))
    new.meta = dict(buffer.meta)
    for user in readers:
        user.replace_input_with(buffer, new)
    for node in (*written.values(), *selects, buffer):
        graph.erase_node(node)


def _fits(value: fx.Node, buffer: fx.Node) -> bool:
    """Whether it is written as it is, neither repeated nor of another type."""
    a, b = value.meta["val"], buffer.meta["val"]
    return bool(a.dim() == b.dim() - 1 and a.dtype == b.dtype)
