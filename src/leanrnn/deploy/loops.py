"""A loop over time in Python, which a trace has as many times as there were steps, as one loop of any length again.

The graph of such a loop has the same operators for every step: those that read step i of the input, and what they lead
to. If all steps are alike, read only themselves, the step before and what does not change, and if only lists of all
their results or the last results are used, then the whole is torch's scan over one of them.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn
from torch._higher_order_ops.scan import scan
from torch.utils import _pytree as pytree

from leanrnn.deploy.alike import Loop, NoLoop
from leanrnn.deploy.taken import apart, simplified

__all__ = ["rolled"]

LEAST = 3
"""Steps from which on something is a loop: a first one, and two that are alike."""
Use: TypeAlias = tuple[fx.Node, int, fx.Node | None]
"""What reads a result of a loop: a node, which result, and the last one if it is that alone."""
ATEN = torch.ops.aten
JOINS = (ATEN.stack.default, ATEN.cat.default)


def rolled(module: fx.GraphModule) -> fx.GraphModule | None:
    """``module`` with its loop over time as a scan, in place; None if there is none to be found."""
    try:
        _roll(module)
    except NoLoop:
        return None
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    return module


class Steps(nn.Module):
    """A step in a scan; what it gives are its results of all steps, one after the other."""

    def __init__(self, step: fx.GraphModule, state: list[int], axes: list[int]) -> None:
        super().__init__()
        self.step, self.state, self.axes = step, state, axes

    def forward(self, first: list[Tensor], sequences: list[Tensor], fixed: list[Any]) -> list[Tensor]:
        """``first`` is the state to begin with; results are along a first axis of their own."""
        along = [each.movedim(axis, 0) for each, axis in zip(sequences, self.axes, strict=True)]

        def step(state: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            found = [each.clone() for each in self.step(*state, *now, *fixed)]
            return [found[i] for i in self.state], [each.clone() for each in found]

        # h and c may begin with the same zeros, which a scan refuses.
        return list(scan(step, [each.clone() for each in first], along)[1])


def _roll(module: fx.GraphModule) -> None:
    graph, count = module.graph, 0
    graph.eliminate_dead_code()
    simplified(graph)
    _share(graph)
    while (found := _found(graph)) is not None:
        _replace(module, f"time_steps_{count}", *found)
        graph.eliminate_dead_code()
        count += 1
    if not count:
        raise NoLoop


def _found(graph: fx.Graph) -> tuple[Loop, list[Use]] | None:
    """The first loop there is: one over the sequence that is taken apart first, forwards or backwards."""
    given = _given(graph)
    taken = {key: steps for key, steps in apart(graph).items() if key[0] in given and len(steps) >= LEAST}
    for count in dict.fromkeys(map(len, taken.values())):
        alike = {key: steps for key, steps in taken.items() if len(steps) == count}
        for nodes in _together(graph, {node for steps in alike.values() for node in steps.values()}, count):
            for backwards in (False, True):
                with contextlib.suppress(NoLoop):
                    loop = Loop(graph, nodes, alike, count, backwards)
                    if uses := list(_uses(graph, loop)):
                        return loop, uses
    return None


def _given(graph: fx.Graph) -> set[fx.Node]:
    """What depends on an input: the rows of a weight are no steps."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or found.intersection(node.all_input_nodes):
            found.add(node)
    return found


def _together(graph: fx.Graph, slices: set[fx.Node], count: int) -> list[set[fx.Node]]:
    """What follows from the steps of sequences, in parts that have nothing to do with each other but that they read the
    same, or that one reads what the other has collected of all its steps."""
    part: dict[fx.Node, set[fx.Node]] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node in slices or _collects(node, count):
            continue
        before = [part[each] for each in node.all_input_nodes if each in part]
        if before or slices.intersection(node.all_input_nodes):
            joined = {node}.union(*before)
            part |= dict.fromkeys(joined, joined)
    return list({id(nodes): nodes for nodes in part.values()}.values())


def _is_view(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(each.alias_info is not None for each in schema.returns)


def _collects(node: fx.Node, count: int) -> bool:
    """Whether a node puts one result of every step together."""
    listed: Any = node.args[0] if node.target in JOINS and node.args else ()
    return isinstance(listed, list | tuple) and len(listed) == count and len({each.target for each in listed}) == 1


def _replace(module: fx.GraphModule, name: str, loop: Loop, uses: list[Use]) -> None:
    """A scan in place of the steps."""
    graph = module.graph
    fixed = list(dict.fromkeys(v for p in loop.places for kind, v in p if kind == "fixed" and isinstance(v, fx.Node)))
    state = list(loop.first)
    results = list(dict.fromkeys([*state, *(position for _, position, _ in uses)]))
    body = _body(module, loop, fixed, results)
    module.add_submodule(name, Steps(body, [results.index(i) for i in state], [a for _, a in loop.sources]))
    with graph.inserting_before(uses[0][0]):
        read = [graph.call_function(ATEN.flip.default, (s, [a])) if loop.backwards else s for s, a in loop.sources]
        # Rows of one weight are views of one tensor, which a scan refuses.
        own = [graph.call_function(ATEN.clone.default, (node,)) if _is_view(node) else node for node in fixed]
        made = graph.call_module(name, ([*loop.first.values()], read, own))
        parts = {position: graph.call_function(operator.getitem, (made, i)) for i, position in enumerate(results)}
    for user, position, last in uses:
        with graph.inserting_before(user):
            if last is not None:
                new = graph.call_function(ATEN.select.int, (parts[position], 0, -1))
                new.meta = dict(last.meta)
                user.replace_input_with(last, new)
            else:
                turned = list(user.args[0]) != loop.results(position)  # type: ignore[arg-type]
                all_of = graph.call_function(ATEN.flip.default, (parts[position], [0])) if turned else parts[position]
                new = _joined(graph, user, all_of)
                new.meta = dict(user.meta)
                user.replace_all_uses_with(new)
                graph.erase_node(user)


def _share(graph: fx.Graph) -> None:
    """Nodes that compute the same of the same become one, such as a weight that every step turns anew."""
    known: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op not in ("call_function", "get_attr") or _changes(node):
            continue
        leaves, structure = pytree.tree_flatten((node.args, node.kwargs))
        key = node.op, node.target, str(structure), tuple((type(leaf), leaf) for leaf in leaves)
        same = known.setdefault(key, node)
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)


def _changes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and (schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags)  # type: ignore[union-attr]


def _uses(graph: fx.Graph, loop: Loop) -> Iterator[Use]:
    """What reads results of a loop: a node, which result, and the last one if it is that alone."""
    for node in graph.nodes:
        read = [each for each in node.all_input_nodes if each in loop.at]
        if not read or node in loop.at:
            continue
        listed = node.args[0] if node.args and isinstance(node.args[0], (list, tuple)) else ()
        if node.target in JOINS:
            position = loop.at.get(listed[0], -1)
            if position < 0 or loop.results(position) not in (list(listed), list(listed)[::-1]):
                raise NoLoop
            yield node, position, None
            continue
        for each in read:
            position = loop.at[each]
            if each is not loop.last.get(position):
                raise NoLoop
            yield node, position, each


def _joined(graph: fx.Graph, user: fx.Node, steps: fx.Node) -> fx.Node:
    """What a stack or a cat of all steps is, made of them along a first axis."""
    axis = int(user.args[1] if len(user.args) > 1 else user.kwargs.get("dim", 0))  # type: ignore[arg-type]
    axis = axis + user.meta["val"].dim() if axis < 0 else axis
    moved = graph.call_function(ATEN.movedim.int, (steps, 0, axis))
    return moved if user.target is ATEN.stack.default else graph.call_function(
        ATEN.flatten.using_ints, (moved, axis, axis + 1)
    )  # fmt: skip


def _body(module: fx.GraphModule, loop: Loop, fixed: list[fx.Node], results: list[int]) -> fx.GraphModule:
    """One step: the state, what is read of the sequences and what never changes go in, results come out."""
    graph, now = fx.Graph(), dict[int, fx.Node]()
    before = {position: graph.placeholder(f"state_{i}") for i, position in enumerate(loop.first)}
    slices = {k: graph.placeholder(f"step_{k}") for k in range(len(loop.sources))}
    others = {node: graph.placeholder(f"fixed_{i}") for i, node in enumerate(fixed)}
    known: dict[str, Any] = {"before": before, "slice": slices, "now": now}
    for position, node in enumerate(loop.steps[1]):
        _, structure = pytree.tree_flatten((node.args, node.kwargs))
        found = [known[kind][v] if kind != "fixed" else others.get(v, v) for kind, v in loop.places[position]]
        args, kwargs = pytree.tree_unflatten(found, structure)
        now[position] = graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
    graph.output([now[position] for position in results])
    return fx.GraphModule(module, graph)
