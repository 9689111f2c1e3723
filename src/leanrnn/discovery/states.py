"""Tell a recurrent state that is handed on to the next call from a result."""

from __future__ import annotations

import numpy as np

from leanrnn.discovery.labels import Labels
from leanrnn.discovery.propagate import Propagation
from leanrnn.discovery.rules import Kind
from leanrnn.discovery.tape import Node
from leanrnn.discovery.ties import unify

__all__ = ["is_state", "tie_handed_on"]


def is_state(found: Propagation, value: int, of: Labels) -> bool:
    """Whether a value is one step of each width it carries, made by the arithmetic of a cell.

    Steps laid side by side are a sequence of outputs; sums over time, attention and the like are results. ``of`` is the
    class of every label.
    """
    made = {o: node for node in found.tape.nodes for o in node.outs}
    seen: set[int] = set()
    todo = [value]
    while todo:
        i = todo.pop()
        if i in seen or i not in made or not _carries_width(found, i):
            continue
        seen.add(i)
        more = _sources(found, made[i], i, of)
        if more is None:
            return False
        todo += more
    return True


def tie_handed_on(found: Propagation, of: Labels) -> None:
    """A state that comes in and goes out is one width, which a single step does not show by itself."""
    tape = found.tape
    given = [i for i, s in tape.sources.items() if s.kind == "input" and s.name != "0" and tape.floating(i)]
    for value in tape.outputs[1:]:
        same = [i for i in given if tape.shapes[i] == tape.shapes[value] and len(tape.shapes[i]) > 1]
        if same and value in found.values and is_state(found, value, of):
            given.remove(same[0])
            pair = [found.values[same[0]], found.values[value]]
            unify(found.ties, pair, tape.shapes[value], lambda flags: flags[0])


def _sources(found: Propagation, node: Node, value: int, of: Labels) -> list[int] | None:
    """The values a state would have to be made of, or ``None`` if this operator makes no state."""
    kind, inputs = node.kind, node.inputs()
    if not inputs:
        return []  # a fresh constant, the first state
    if node.scatter is not None:
        return None if Kind.STEP in kind else inputs[1:2]
    if Kind.JOIN in kind:
        return None if _repeats(found, inputs) and not _has_own_rows(found, node, value, of) else inputs
    if Kind.STATE in kind:
        return []
    if Kind.RUN in kind:
        longer = [
            a for a, b in zip(found.tape.shapes[value], found.tape.shapes[inputs[0]], strict=True) if a != b and a > 1
        ]
        return inputs[:1] if longer else []
    if Kind.COPY in kind:
        return inputs[-1:]
    if kind & (Kind.MOVE | Kind.PASS):
        return inputs[:1]
    return inputs if Kind.POINTWISE in kind else None


def _carries_width(found: Propagation, value: int) -> bool:
    """Whether a value has indices that could leave; a fresh initial state has none, however it was made."""
    return value in found.values and any(found.ties.loose(f.labels) for f in found.values[value].factors)


def _repeats(found: Propagation, parts: list[int]) -> bool:
    """Whether two of the joined parts carry the same labels."""
    labels = [
        set(np.unique(f.labels).tolist())
        for i in parts
        if i in found.values
        for f in found.values[i].factors
        if found.ties.loose(f.labels)
    ]
    return any(a & b for k, a in enumerate(labels) for b in labels[k + 1 :])


def _has_own_rows(found: Propagation, node: Node, value: int, of: Labels) -> bool:
    """Whether the joined axis has each of its indices once: sequences of a packed batch, each at its own last step."""
    axis = found.values[value].axis(int(node.argument("dim")))
    rows = [f.labels for f in found.values[value].factors if f.axes == (axis,)]
    return bool(rows) and all((r >= 0).all() and len(np.unique(of[r])) == len(r) for r in rows)
