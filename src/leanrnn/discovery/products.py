"""What the products on a tape cost, as a function of the widths that were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import nn

from leanrnn.discovery.classes import Classes
from leanrnn.discovery.functions import Opaque
from leanrnn.discovery.labels import Factor, Labels
from leanrnn.discovery.propagate import Propagation
from leanrnn.discovery.ties import Product
from leanrnn.groups.costs import Cost, Costs
from leanrnn.groups.extents import STAYS, Extent, extent, parameter_costs, spread, times
from leanrnn.groups.groups import Layer

__all__ = ["costs_of"]


def costs_of(found: Propagation, classes: Classes, layers: Sequence[Layer], model: nn.Module, calls: int = 1) -> Costs:
    """The costs of a model whose widths are ``layers``; the tape has so many calls of it."""
    extents = _Extents(found, classes, layers)
    terms: dict[tuple[int, ...], int] = {}
    for product in found.ties.products:
        for key, number in extents.of_product(product).items():
            terms[key] = terms.get(key, 0) + number
    notes = [*extents.notes, *_left_out(found)]
    if all(number % calls == 0 for number in terms.values()):
        terms = {key: number // calls for key, number in terms.items()}
    else:
        notes.append(f"mult-adds are those of {calls} calls in a row, which differ from each other")
    names = [layer.name for layer in layers]
    mult_adds = Cost({tuple(names[i] for i in key): number for key, number in terms.items() if number})
    weights, sizes, more = parameter_costs(model, layers)
    return Costs(mult_adds, weights, sizes, tuple(dict.fromkeys((*notes, *more))))


class _Extents:
    """How long every axis of every product is, at any widths."""

    def __init__(self, found: Propagation, classes: Classes, layers: Sequence[Layer]) -> None:
        self.found, self.of = found, classes.of
        self.widths = [layer.width for layer in layers]
        self.owners = _owners(found, classes, layers)
        self.notes: dict[str, None] = {}
        self._known: dict[bytes, Extent | None] = {}

    def of_product(self, product: Product) -> dict[tuple[int, ...], int]:
        """The multiplications of one product."""
        lines: dict[int, list[Labels]] = {}
        for factor in product.factors:
            axis, line = self._line(factor)
            if line is not None and self.owners.any_of(line):
                if axis < 0:
                    self._note(product)
                lines.setdefault(axis, []).append(line)
        return times((self._axis(product, i, lines.get(i, [])) for i in range(len(product.sizes))), product.often)

    def _line(self, factor: Factor) -> tuple[int, Labels | None]:
        """The axis along which components leave, and the class of every index there; -1 if it is not a single one."""
        classes = np.where(factor.labels >= 0, self.of[factor.labels], -1)
        if len(factor.axes) == 1:
            return factor.axes[0], classes
        for axis in sorted(factor.main):
            others = tuple(i for i, a in enumerate(factor.axes) if a != axis)
            line = classes.max(axis=others, keepdims=True)
            if bool(((classes == line) | (classes < 0)).all()):
                return axis, line.reshape(-1)
        return -1, classes.reshape(-1)

    def _axis(self, product: Product, axis: int, lines: list[Labels]) -> Extent:
        if not lines:
            return {(): product.sizes[axis]}
        classes = np.stack(lines, 1)
        key = classes.tobytes()
        if key not in self._known:
            self._known[key] = extent(*self.owners.columns(classes), self.widths)
        known = self._known[key]
        if known is None:
            self._note(product)
            return {(): product.sizes[axis]}
        return known

    def _note(self, product: Product) -> None:
        node = self.found.tape.nodes[product.here]
        self.notes[f"an axis of {node.name} at {node.where} is {STAYS}"] = None


class _Owners:
    """Which components of which layers the indices of a class leave with."""

    def __init__(self, count: int, rows: Labels, layers: Labels, components: Labels) -> None:
        # The last row is of what is no class: -1 finds it.
        self.layers, self.components = spread(rows, layers, components, count + 1)
        self._any = self.layers[:, 0] >= 0

    def any_of(self, classes: Labels) -> bool:
        return bool(self._any[classes].any())

    def columns(self, classes: Labels) -> tuple[Labels, Labels]:
        """A row for every index, a column for everything it leaves with."""
        size = len(classes)
        return self.layers[classes].reshape(size, -1), self.components[classes].reshape(size, -1)


def _owners(found: Propagation, classes: Classes, layers: Sequence[Layer]) -> _Owners:
    starts = {(o.name, o.axis): o.start for o in found.owners if o.kind in ("parameter", "buffer")}
    parts = []
    for i, layer in enumerate(layers):
        for strip in layer.strips:
            cls = classes.of[starts[strip.tensor, strip.axis] + strip.positions]
            own = ~classes.derived[cls]
            parts.append(np.stack([cls[own], np.full(int(own.sum()), i, np.int64), strip.components[own]]))
    rows = np.unique(np.concatenate([*parts, np.zeros((3, 0), np.int64)], axis=1), axis=1)
    rows = np.concatenate([rows, *_derived(rows, classes)], axis=1)
    rows = np.unique(rows, axis=1)
    return _Owners(len(classes.derived), rows[0], rows[1], rows[2])


def _derived(rows: Labels, classes: Classes) -> Iterator[Labels]:
    """The same for classes that leave along with others."""
    owner, derived = classes.implied
    order = np.argsort(rows[0], kind="stable")
    first, last = (np.searchsorted(rows[0][order], owner, side) for side in ("left", "right"))
    for at, lo, hi in zip(derived.tolist(), first.tolist(), last.tolist(), strict=True):
        if lo < hi and classes.derived[at]:
            part = rows[:, order[lo:hi]].copy()
            part[0] = at
            yield part


def _left_out(found: Propagation) -> Iterator[str]:
    """Operators that may multiply, and say nothing of how often."""
    counted = {product.here for product in found.ties.products}
    for at, node in enumerate(found.tape.nodes):
        if at in counted or node.scatter is not None or not any(o in found.values for o in node.outs):
            continue
        if isinstance(node.op, Opaque):
            yield f"{node.op.words} is not counted"
        elif node.known is None or node.op.namespace not in ("aten", "prims"):
            yield f"{node.name} at {node.where}, an operator without a formula, is not counted"
        elif at in found.sums:
            yield f"{node.name} at {node.where}, a sum of numbers times a parameter, is not counted"
