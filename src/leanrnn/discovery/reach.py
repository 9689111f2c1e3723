"""What a tape tells before any label is given: which operators matter, which parameters are weights."""

from __future__ import annotations

from collections.abc import Sequence

from leanrnn.discovery.rules import Kind
from leanrnn.discovery.sums import sums_of
from leanrnn.discovery.tape import Node, Ref, Tape

__all__ = ["idle_nodes", "live_nodes", "unread_tiles", "weights_of"]


def live_nodes(tape: Tape) -> list[bool]:
    """Which operators lead to an output of the model; the others say nothing about what can leave."""
    wanted = set(tape.outputs)
    live = [False] * len(tape.nodes)
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if any(o in wanted for o in node.outs) or Kind.READ in node.kind:
            live[i] = True
            wanted.update(node.inputs())
    return live


def idle_nodes(tape: Tape, live: Sequence[bool]) -> list[bool]:
    """Products that lead to no output, and what leads to them: they say nothing either, but they run."""
    wanted: set[int] = set()
    idle = [False] * len(tape.nodes)
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if not live[i] and (Kind.PRODUCT in node.kind or any(o in wanted for o in node.outs)):
            idle[i] = True
            wanted.update(node.inputs())
    return idle


def weights_of(tape: Tape) -> set[int]:
    """Parameters that enter a matrix product, a convolution or a lookup, as they are or after arithmetic among
    parameters, and factors of a sum that is a product in effect."""
    made_of: dict[int, frozenset[int]] = {i: frozenset((i,)) for i, s in tape.sources.items() if s.kind == "parameter"}
    weights: set[int] = set()
    for node in tape.nodes:
        inputs = node.inputs()
        if Kind.PRODUCT in node.kind:
            summand = _summand(node)
            weights.update(p for i in inputs if i in made_of and i != summand for p in made_of[i])
        elif inputs and all(i in made_of for i in inputs):
            made = frozenset().union(*(made_of[i] for i in inputs))
            made_of.update({o: made for o in node.outs})
    return weights | sums_of(tape).weights


def _summand(node: Node) -> int | None:
    """What a product adds at the end is a bias, not a factor."""
    added = node.argument(node.known.summand) if node.known is not None else None
    return added.id if isinstance(added, Ref) else None


def unread_tiles(tape: Tape, live: Sequence[bool]) -> list[tuple[int, int, int]]:
    """Axes cut into equal slices of which some go unread: value, axis and number of slices.

    A gate that nothing reads still has its place among the others, as if the axis had been split.
    """
    found: dict[tuple[int, int, int], dict[int, bool]] = {}
    for node, is_live in zip(tape.nodes, live, strict=True):
        # Other operators that cut an axis give all pieces at once, and their rules tie them.
        if Kind.STRETCH in node.kind and node.has("start") and node.scatter is None:
            base, dim, start = node.args[0], node.argument("dim"), node.argument("start")
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
