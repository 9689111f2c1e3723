"""How long an axis is at any widths: a sum over the sets of layers whose components its indices leave with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from leanrnn.groups.costs import Cost
from leanrnn.groups.data import Indices, Layer

__all__ = ["STAYS", "Extent", "extent", "parameter_costs", "spread", "times"]

STAYS = "counted as if it kept its length"

Extent = Mapping[tuple[int, ...], int]
"""Positions of layers whose widths are multiplied, and with which number: ``{(): 10, (0,): 4}`` is 10 + 4 n_0."""


def extent(layers: Indices, components: Indices, widths: Sequence[int]) -> Extent | None:
    """The extent of an axis from what each of its indices leaves with; None if no such sum is exact.

    Both arrays have a row for every index of the axis and a column for everything it leaves with: the position of a
    layer (-1: nothing) and the component there. ::

        extent(np.array([[0], [0], [-1]]), np.array([[0], [1], [0]]), [2])  # {(0,): 1, (): 1}
    """
    order = np.lexsort((components, layers), axis=1) if layers.shape[1] > 1 else None
    if order is not None:
        layers, components = (np.take_along_axis(a, order, 1) for a in (layers, components))
        again = (layers[:, 1:] == layers[:, :-1]) & (components[:, 1:] == components[:, :-1])
        layers = np.concatenate([layers[:, :1], np.where(again, -1, layers[:, 1:])], axis=1)
    found: dict[tuple[int, ...], int] = {}
    kinds, which = np.unique(layers, axis=0, return_inverse=True)
    for i, kind in enumerate(kinds.tolist()):
        at = which.reshape(-1) == i
        names = tuple(sorted(layer for layer in kind if layer >= 0))
        part = _complete(names, components[at][:, [layer >= 0 for layer in kind]], widths)
        if part is None:
            return None
        for key, number in part.items():
            found[key] = found.get(key, 0) + number
    return {key: number for key, number in found.items() if number}


def _complete(names: tuple[int, ...], components: Indices, widths: Sequence[int]) -> Extent | None:
    """Indices that leave with a component of each of these layers, if every combination of them is there as often."""
    if not names:
        return {(): len(components)}
    sizes = [widths[layer] for layer in names]
    counts = np.bincount(np.ravel_multi_index(tuple(components.T), sizes), minlength=int(np.prod(sizes)))
    if (counts == counts[0]).all():
        return {names: int(counts[0])}
    if len(names) != 2 or names[0] != names[1]:
        return None
    # Pairs of different components of one layer, each in either order: n (n - 1) of them.
    pairs = counts.reshape(sizes)[np.triu_indices(sizes[0], 1)]
    if (pairs != pairs[0]).any() or pairs[0] % 2:
        return None
    return {names: int(pairs[0]) // 2, names[:1]: -int(pairs[0]) // 2}


def times(extents: Iterable[Extent], factor: int = 1) -> dict[tuple[int, ...], int]:
    """The product of several extents, and a number: ``times([{(0,): 4}, {(): 2}]) == {(0,): 8}``."""
    found: dict[tuple[int, ...], int] = {(): factor}
    for other in extents:
        product: dict[tuple[int, ...], int] = {}
        for names, number in found.items():
            for more, again in other.items():
                key = tuple(sorted(names + more))
                product[key] = product.get(key, 0) + number * again
        found = product
    return found


def parameter_costs(model: nn.Module, layers: Sequence[Layer]) -> tuple[Cost, Cost, list[str]]:
    """Numbers in all parameters and the bytes they take, shared parameters counted once; and what is not exact."""
    owned = _owned(layers)
    widths, names = [layer.width for layer in layers], [layer.name for layer in layers]
    weights: dict[tuple[str, ...], int] = {}
    sizes: dict[tuple[str, ...], int] = {}
    notes = []
    for parameter, every in _distinct(model):
        name = next((n for n in every if any((n, axis) in owned for axis in range(parameter.dim()))), every[0])
        extents: list[Extent] = []
        for axis, size in enumerate(parameter.shape):
            known = extent(*_columns(owned.get((name, axis), []), size), widths)
            notes += [f"axis {axis} of {name} is {STAYS}"] if known is None else []
            extents.append({(): size} if known is None else known)
        for key, number in times(extents).items():
            named = tuple(names[layer] for layer in key)
            weights[named] = weights.get(named, 0) + number
            sizes[named] = sizes.get(named, 0) + number * parameter.element_size()
    return _cost(weights), _cost(sizes), notes


def _cost(terms: dict[tuple[str, ...], int]) -> Cost:
    return Cost({names: number for names, number in terms.items() if number})


def _distinct(model: nn.Module) -> Iterable[tuple[torch.Tensor, list[str]]]:
    """Every parameter once, with all of its names."""
    found: dict[int, tuple[torch.Tensor, list[str]]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(parameter), (parameter, []))[1].append(name)
    return found.values()


Owned = dict[tuple[str, int], list[tuple[int, Indices, Indices]]]


def _owned(layers: Sequence[Layer]) -> Owned:
    """By tensor and axis: which layer has which components at which positions."""
    found: Owned = {}
    for i, layer in enumerate(layers):
        for strip in layer.strips:
            found.setdefault((strip.tensor, strip.axis), []).append((i, strip.positions, strip.components))
    return found


def _columns(parts: Sequence[tuple[int, Indices, Indices]], size: int) -> tuple[Indices, Indices]:
    """A row for every position, a column for everything that it leaves with."""
    rows = np.concatenate([np.zeros(0, np.int64), *(positions for _, positions, _ in parts)])
    owners = np.concatenate([np.zeros(0, np.int64), *(np.full(len(p), i, np.int64) for i, p, _ in parts)])
    comps = np.concatenate([np.zeros(0, np.int64), *(components for _, _, components in parts)])
    return spread(rows, owners, comps, size)


def spread(rows: Indices, owners: Indices, components: Indices, size: int) -> tuple[Indices, Indices]:
    """Entries laid side by side in their rows, filled up with nothing."""
    order = np.argsort(rows, kind="stable")
    rows, owners, components = rows[order], owners[order], components[order]
    column = np.arange(len(rows)) - np.searchsorted(rows, rows)
    shape = (size, max(1, int(column.max(initial=0)) + 1))
    layers: NDArray[np.int64] = np.full(shape, -1, np.int64)
    found: NDArray[np.int64] = np.zeros(shape, np.int64)
    layers[rows, column], found[rows, column] = owners, components
    return layers, found
