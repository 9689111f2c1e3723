"""What a tape tells before any label is given: which operators matter, which parameters are weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from leanrnn.discovery.recurrence import PRODUCTS
from leanrnn.discovery.tape import Node, Ref, Tape

__all__ = ["live_nodes", "unread_tiles", "weights_of"]


def live_nodes(tape: Tape) -> list[bool]:
    """Which operators lead to an output of the model; the others say nothing about what can leave."""
    wanted = {*tape.outputs, *tape.sinks}
    live = [False] * len(tape.nodes)
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if any(o in wanted for o in node.outs) or node.name == "aten._local_scalar_dense":
            live[i] = True
            wanted.update(node.inputs())
    return live


def weights_of(tape: Tape) -> set[int]:
    """Parameters that enter a matrix product, a convolution or a lookup, as they are or after arithmetic among
    parameters."""
    made_of: dict[int, frozenset[int]] = {i: frozenset((i,)) for i, s in tape.sources.items() if s.kind == "parameter"}
    weights: set[int] = set()
    for node in tape.nodes:
        inputs = node.inputs()
        name = node.op.overloadpacket.__name__
        if name in PRODUCTS:
            summand = _summand(node, name)
            weights.update(p for i in inputs if i in made_of and i not in summand for p in made_of[i])
        elif inputs and all(i in made_of for i in inputs):
            made = frozenset().union(*(made_of[i] for i in inputs))
            made_of.update({o: made for o in node.outs})
    return weights


def _summand(node: Node, name: str) -> set[int]:
    """What a product adds at the end is a bias, not a factor."""
    if name.startswith(("add", "badd")):
        return {node.args[0].id}
    position = {"convolution": 2, "linear": 2}.get(name)
    added = node.args[position] if position is not None and len(node.args) > position else None
    return {added.id} if isinstance(added, Ref) else set()


def unread_tiles(tape: Tape, live: Sequence[bool]) -> list[tuple[int, int, int]]:
    """Axes cut into equal slices of which some go unread: value, axis and number of slices.

    A gate that nothing reads still has its place among the others, as if the axis had been split.
    """
    found: dict[tuple[int, int, int], dict[int, bool]] = {}
    for node, is_live in zip(tape.nodes, live, strict=True):
        if node.op is torch.ops.aten.slice.Tensor and node.scatter is None:
            base, dim, start = [*node.args, *(0, None)[len(node.args) - 1 :]][:3]
            shape = tape.shapes[base.id]
            size, start = tape.shapes[node.outs[-1]][dim], (start or 0) % max(1, shape[dim])
            places = found.setdefault((base.id, dim % len(shape), size), {})
            places[start] = places.get(start, False) or is_live
    return [
        (base, dim, len(places))
        for (base, dim, size), places in found.items()
        if len(places) > 1
        and not all(places.values())
        and sorted(places) == list(range(0, tape.shapes[base][dim], size))
    ]
