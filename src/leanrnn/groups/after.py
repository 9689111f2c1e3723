"""Layers as they are after a cut: the same places, renumbered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leanrnn.groups.data import Indices, Layer, Masks, Place

__all__ = ["cut_layers"]


def cut_layers(
    layers: Sequence[Layer],
    masks: Masks,
    kept: Mapping[tuple[str, int], Indices],
    kept_held: Mapping[Place, tuple[int, Indices]],
) -> tuple[Layer, ...]:
    """The layers after the components outside ``masks`` were cut out; ``kept`` and ``kept_held`` are the positions that
    stay of every tensor that loses some."""
    shapes: dict[str, list[int]] = {s.tensor: list(s.shape) for layer in layers for s in layer.strips}
    for (tensor, axis), positions in kept.items():
        shapes[tensor][axis] = len(positions)
    return tuple(_cut_layer(layer, masks[layer.name], kept, shapes, kept_held) for layer in layers)


def _cut_layer(
    layer: Layer,
    mask: NDArray[np.bool_],
    kept: Mapping[tuple[str, int], Indices],
    shapes: Mapping[str, list[int]],
    kept_held: Mapping[Place, tuple[int, Indices]],
) -> Layer:
    renumbered = np.cumsum(mask) - 1
    strips = []
    for strip in layer.strips:
        stay = np.arange(strip.shape[strip.axis]) if (strip.tensor, strip.axis) not in kept else None
        stay = kept[strip.tensor, strip.axis] if stay is None else stay
        # A position may also leave with a component of another layer (a flattened product of two widths).
        use = mask[strip.components] & np.isin(strip.positions, stay)
        positions = np.searchsorted(stay, strip.positions[use])
        components = renumbered[strip.components[use]]
        strips.append(replace(strip, positions=positions, components=components, shape=tuple(shapes[strip.tensor])))
    held = []
    for item in layer.held:
        _, stay = kept_held.get((item.module, item.path), (item.length, np.arange(item.length)))
        use = mask[item.components]
        positions = np.searchsorted(stay, item.positions[use])
        held.append(replace(item, length=len(stay), positions=positions, components=renumbered[item.components[use]]))
    # Callers go on handing in states of the first width, which recurrent modules accept.
    given = [
        replace(g, positions=g.positions[mask[g.components]], components=renumbered[g.components[mask[g.components]]])
        for g in layer.given
    ]
    return replace(layer, width=int(mask.sum()), strips=tuple(strips), held=tuple(held), given=tuple(given))
