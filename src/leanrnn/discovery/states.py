"""Tell a recurrent state that is handed on to the next call from a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from leanrnn.discovery.classes import Classes, solve
from leanrnn.discovery.labels import Labels
from leanrnn.discovery.propagate import Propagation, propagate
from leanrnn.discovery.readings import PLAIN, Reading
from leanrnn.discovery.rules import Kind
from leanrnn.discovery.tape import Node, Tape
from leanrnn.discovery.unify import unify

__all__ = ["States", "classes_of", "is_state", "propagate_states"]

States = Literal["auto"] | Sequence[int]
"""Which of the returned tensors are states, if the user says so."""


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


def classes_of(found: Propagation, states: States) -> Classes:
    """The classes, once it is known which outputs are results and which are states."""
    pins, stacked = _result_pins(found, states, solve(found, ()))
    classes = solve(found, pins)
    # A state whose layers all shrink may come back as one tensor a layer; with a layer that cannot shrink in it, it
    # would always do so, and callers expect one tensor.
    partly = [labels for labels in stacked if len(set(classes.pinned[classes.of[labels]].tolist())) > 1]
    if not partly:
        return classes
    return solve(found, [*pins, *((labels, "is returned in one tensor with a width that stays") for labels in partly)])


def _result_pins(found: Propagation, states: States, classes: Classes) -> tuple[list[tuple[Labels, str]], list[Labels]]:
    """What reaches the result keeps its width; also the labels of returned states of several layers, stacked."""
    pins, stacked = [], []
    for i, value in enumerate(found.tape.outputs):
        if value not in found.values:
            continue
        factors = [f for f in found.values[value].factors if found.ties.loose(f.labels)]
        labels = [f.labels[f.labels >= 0] for f in factors]
        if states == "auto":
            state = (
                i > 0
                and found.tape.floating(value)
                and all(classes.recurrent[classes.of[lab]].all() for lab in labels)
                and is_state(found, value, classes.of)
            )
        else:
            state = i in states
        if state:
            stacked += [lab for lab, f in zip(labels, factors, strict=True) if f.main != set(f.axes)]
        else:
            reason = f"reaches output {i} of the model (states=[{i}], if callers take it narrower)"
            pins += [(lab, reason) for lab in labels]
    return pins, stacked


def propagate_states(tape: Tape, how: Reading = PLAIN) -> Propagation:
    """All ties of a tape, in which a state that comes in and goes out is one width: a single step does not show it.

    A state that is handed in was returned by an earlier call, or is the zeros of the first. So it is zero where a
    component is, if the one returned is made of it and is zero there whenever it is.
    """
    found = propagate(tape, how)
    classes = solve(found, ())
    pairs = list(_handed_on(found, classes.of))
    if any(classes.pinned[classes.of[_labels(found, i)]].any() for i, _ in pairs):
        found = _with_zeros(found, how, pairs)
    for given, value in pairs:
        unify(found.ties, [found.values[given], found.values[value]], tape.shapes[value], lambda flags: flags[0])
    return found


def _with_zeros(found: Propagation, how: Reading, pairs: Sequence[tuple[int, int]]) -> Propagation:
    """Suppose that states handed in are zero as soon as weights are, and less until what is returned agrees."""
    states = {given: 2 for given, value in pairs if _made_of(found.tape, value, given)}
    while states:
        tried = propagate(found.tape, how, states)
        least = {given: min(states[given], _least(tried, value)) for given, value in pairs if given in states}
        if least == states:
            return tried
        states = {given: flag for given, flag in least.items() if flag}
    return found


def _made_of(tape: Tape, value: int, given: int) -> bool:
    """Whether a value depends on what was handed in."""
    wanted = {value}
    for node in reversed(tape.nodes):
        if wanted.intersection(node.outs):
            wanted.update(node.inputs())
    return given in wanted


def _least(found: Propagation, value: int) -> int:
    """How surely a value is zero where its components are."""
    flags = [f.zero[f.labels >= 0] for f in found.values[value].factors if found.ties.loose(f.labels)]
    return min((int(f.min()) for f in flags), default=0)


def _labels(found: Propagation, value: int) -> Labels:
    labels = [f.labels[f.labels >= 0] for f in found.values[value].factors if found.ties.loose(f.labels)]
    return np.concatenate([*labels, np.zeros(0, np.int64)])


def _handed_on(found: Propagation, of: Labels) -> Iterator[tuple[int, int]]:
    """States that come in, each with the one that goes out in its place."""
    tape = found.tape
    given = [i for i, s in tape.sources.items() if s.kind == "input" and s.name != "0" and tape.floating(i)]
    for value in tape.outputs[1:]:
        same = [i for i in given if tape.shapes[i] == tape.shapes[value] and len(tape.shapes[i]) > 1]
        if same and value in found.values and is_state(found, value, of):
            given.remove(same[0])
            yield same[0], value


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
    if Kind.STRETCH in kind:
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
