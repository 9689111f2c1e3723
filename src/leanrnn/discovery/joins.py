"""Widths that cannot shrink each on its own, and can together: code has one number, or the size of one tensor, for
several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from leanrnn.discovery.classes import Classes
from leanrnn.discovery.propagate import Propagation
from leanrnn.groups.groups import Groups, Layer

__all__ = ["join_layers", "lines_of"]

PAIRS = 12
"""Pairs that are tried for one width: each trial runs the model some times."""
Passes = Callable[[Sequence[Layer]], bool]
"""Whether layers can be cut together out of one copy, exactly."""
Lines = Mapping[str, frozenset[str]]
"""The lines of the user's code that a layer goes through, by its name."""


def join_layers(groups: Groups, failed: Sequence[Layer], spare: Sequence[Layer], lines: Lines, passes: Passes) -> None:
    """Component k of several widths leaves at once, where none could leave on its own.

    ``failed`` are layers of ``groups.pinned``, ``spare`` others that are not offered on their own. Only layers as wide
    can be joined, and only a cut that passes the proof joins them.
    """
    order = {la.name: i for i, la in enumerate((*failed, *groups.layers))}
    reasons = dict(groups.pinned)
    stuck, free = list(failed), list(spare)
    for first in failed:
        if first not in stuck:
            continue
        near = _Near(first, reasons, lines)
        for part in _parts(near, [la for la in stuck if la is not first], free, groups.layers):
            others = [la for la in groups.layers if la not in part]
            joined = _joined(sorted(part, key=lambda la: order.get(la.name, len(order))))
            if passes([*others, joined]):
                groups.layers = tuple(sorted((*others, joined), key=lambda la: order[la.name]))
                names = {la.name for la in part}
                stuck, free = ([la for la in layers if la.name not in names] for layers in (stuck, free))
                groups.pinned = [(name, reason) for name, reason in groups.pinned if name not in names]
                together = ", ".join(sorted(names, key=lambda name: order.get(name, len(order))))
                groups.reading += f"; {together} can only leave together"
                break


@dataclass(frozen=True)
class _Near:
    """How likely it is that a layer has to be joined with the first."""

    first: Layer
    reasons: Mapping[str, str]
    lines: Lines

    def meets(self, other: Layer) -> bool:
        """Whether both go through the line that one of them failed at."""
        at = {_line(self.reasons.get(la.name, "")) for la in (self.first, other)}
        return bool(at & self.lines.get(self.first.name, frozenset()) & self.lines.get(other.name, frozenset()))

    def __call__(self, other: Layer) -> tuple[bool, bool, int]:
        """The line of the failure that both go through, then a failure in the same line, then the same module."""
        same = _line(self.reasons.get(self.first.name, "")) == _line(self.reasons.get(other.name, "-"))
        return self.meets(other), same, self.home(other)

    def home(self, other: Layer) -> int:
        """How many modules both are in."""
        pairs = zip(self.first.strips[0].tensor.split("."), other.strips[0].tensor.split("."), strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _line(reason: str) -> str:
    """The line that a failure names, if it names one."""
    found = re.search(r" at (\S+:\d+)", reason)
    return found[1] if found else ""


def _parts(near: _Near, stuck: Sequence[Layer], free: Sequence[Layer], kept: Sequence[Layer]) -> Iterator[list[Layer]]:
    """What could be joined with the first: one other layer, the likeliest first, then more and more of them."""
    stuck, free, kept = ([la for la in layers if la.width == near.first.width] for layers in (stuck, free, kept))
    seen = set[frozenset[str]]()

    def fresh(part: list[Layer]) -> bool:
        names = frozenset(la.name for la in part)
        known = names in seen or len(part) < 2
        seen.add(names)
        return not known

    pairs = sorted((*stuck, *free, *kept), key=near, reverse=True)
    wider = [[la for la in stuck if near.home(la) >= depth] for depth in sorted(map(near.home, stuck), reverse=True)]
    wider += [[la for la in stuck if near.meets(la)], stuck, [*stuck, *free], [*stuck, *kept], [*stuck, *free, *kept]]
    for others in ([[la] for la in pairs[:PAIRS]], wider):
        yield from (part for part in ([near.first, *more] for more in others) if fresh(part))


def _joined(layers: Sequence[Layer]) -> Layer:
    first = layers[0]
    return replace(
        first,
        strips=tuple(strip for layer in layers for strip in layer.strips),
        needs_zero_bias=any(layer.needs_zero_bias for layer in layers),
        links=tuple(link for layer in layers for link in layer.links),
        held=tuple(held for layer in layers for held in layer.held),
        given=tuple(given for layer in layers for given in layer.given),
    )


def lines_of(found: Propagation, classes: Classes, layers: Sequence[Layer]) -> dict[str, frozenset[str]]:
    """Where in the user's code something that carries the layer goes in or comes out."""
    starts = {(o.name, o.axis): o.start for o in found.owners if o.kind in ("parameter", "buffer")}
    named: dict[int, list[str]] = {}
    for layer in layers:
        strip = layer.strips[0]
        named.setdefault(int(classes.of[starts[strip.tensor, strip.axis] + int(strip.positions[0])]), []).append(
            layer.name
        )
    lines: dict[str, set[str]] = {layer.name: set() for layer in layers}
    for node in found.tape.nodes:
        for value in (found.values[i] for i in (*node.inputs(), *node.outs) if i in found.values):
            for factor in value.factors:
                for cls in np.unique(classes.of[factor.labels[factor.labels >= 0]]).tolist():
                    for name in named.get(cls, ()):
                        lines[name].add(node.where)
    return {name: frozenset(found) for name, found in lines.items()}
