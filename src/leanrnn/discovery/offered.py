"""Which of the widths that were found are offered, and which are named as pinned, with the reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import numpy as np

from leanrnn.discovery.classes import Classes
from leanrnn.discovery.labels import Labels
from leanrnn.discovery.propagate import Propagation
from leanrnn.discovery.widths import width_name
from leanrnn.groups.data import Layer
from leanrnn.groups.groups import Groups

__all__ = ["Patterns", "chosen", "input_hints", "offerable", "one_step_layers", "pinned_widths"]

Patterns = str | Sequence[str] | None
"""Shell-style patterns on the names of layers and of their parameters."""


def pinned_widths(found: Propagation, classes: Classes) -> list[tuple[str, str]]:
    """Every recurrent width that cannot shrink, named like a layer, with the reason."""
    pinned: dict[str, str] = {}
    fixed = {reason for _, reason, at in found.ties.pins if at < 0}
    for owner in found.owners:
        if owner.kind != "parameter":
            continue
        labels = np.arange(owner.start, owner.start + owner.size)
        of = classes.of[labels]
        stuck = classes.recurrent[of] & (classes.pinned[of] | classes.derived[of])
        if stuck.any() and _loops(found, classes, owner.name, set(of[stuck].tolist())):
            name = width_name(owner.name)
            if name not in pinned:
                reason = classes.reason(labels[stuck])
                pinned[name] = reason + (_meeting(found, classes, labels[stuck]) if reason in fixed else "")
    return list(pinned.items())


def _meeting(found: Propagation, classes: Classes, labels: Labels) -> str:
    """Where a width that was pinned from the start, as by an axis of an input, meets what pins it."""
    mine = next(cls for cls in np.unique(classes.of[labels]).tolist() if cls in classes.reasons)
    labels = labels[classes.of[labels] == mine]
    edges: dict[int, list[tuple[int, int]]] = {}
    for a, b, at in found.ties.tied:
        for i in np.flatnonzero(classes.of[a] == mine).tolist():
            edges.setdefault(int(a[i]), []).append((int(b[i]), at))
            edges.setdefault(int(b[i]), []).append((int(a[i]), at))
    seen, todo = set(labels.tolist()), deque(labels.tolist())
    while todo:
        for label, at in edges.get(todo.popleft(), ()):
            if at >= 0 and found.ties.stays(np.array(label)):
                node = found.tape.nodes[at]
                return f", which it meets in {node.name} at {node.where}"
            if label not in seen:
                seen.add(label)
                todo.append(label)
    return ""


def _loops(found: Propagation, classes: Classes, name: str, stuck: set[int]) -> bool:
    """Whether the parameter both makes and reads one of the classes, or is a vector along it."""
    axes = [
        stuck & set(classes.of[np.arange(o.start, o.start + o.size)].tolist()) for o in found.owners if o.name == name
    ]
    return len(axes) == 1 or any(a & b for i, a in enumerate(axes) for b in axes[i + 1 :])


def offerable(layers: Iterable[Layer]) -> tuple[list[Layer], list[tuple[str, str]]]:
    """Layers of a single component cannot shrink; each recurrent width that has a part in one is named."""
    wide: list[Layer] = []
    narrow: dict[str, str] = {}
    for layer in layers:
        if all(strip.reader for strip in layer.strips):
            if layer.recurrent:
                narrow[layer.name] = "is made of data: weights read it and none makes it"
        elif layer.width > 1:
            wide.append(layer)
        elif layer.recurrent:
            axes = [strip.tensor for strip in layer.strips if strip.role == "weight"]
            loops = [width_name(tensor) for tensor in axes if axes.count(tensor) > 1]
            narrow.update(dict.fromkeys([layer.name, *loops], "has a single component"))
    for name in [layer.name for layer in wide]:
        narrow.pop(name, None)
    return wide, list(narrow.items())


def chosen(
    layers: Iterable[Layer], include: str | Sequence[str] | None, exclude: str | Sequence[str] | None
) -> list[Layer]:
    def matches(layer: Layer, patterns: str | Sequence[str]) -> bool:
        names = [layer.name, *dict.fromkeys(s.tensor for s in layer.strips)]
        return any(fnmatchcase(n, p) for n in names for p in ([patterns] if isinstance(patterns, str) else patterns))

    asked = [la for la in layers if include is None or matches(la, include)]
    return [la for la in asked if exclude is None or not matches(la, exclude)]


def input_hints(found: Propagation, classes: Classes, groups: Groups) -> dict[str, str]:
    """Layers whose components are also indices of an input the caller hands in, with what to say if that holds them."""
    starts = {(o.name, o.axis): o.start for o in found.owners if o.kind != "input"}
    hints = {}
    for owner in (o for o in found.owners if o.kind == "input"):
        reached = set(classes.of[owner.start : owner.start + owner.size].tolist())
        for layer in groups:
            strip = layer.strips[0]
            if int(classes.of[starts[strip.tensor, strip.axis] + int(strip.positions[0])]) in reached:
                hints[layer.name] = f"is as wide as input {owner.name}, which the caller hands in at full width"
    return hints


def one_step_layers(found: Propagation, classes: Classes, layers: Iterable[Layer]) -> tuple[str, ...]:
    """Layers that are recurrent although no operator shows it: they take one step."""
    starts = {(o.name, o.axis): o.start for o in found.owners if o.kind != "input"}

    def shown(layer: Layer) -> bool:
        of = np.concatenate([classes.of[starts[s.tensor, s.axis] + s.positions] for s in layer.strips])
        return bool((classes.recurrent[of] & ~classes.one_step[of]).any())

    return tuple(layer.name for layer in layers if layer.recurrent and not shown(layer))
