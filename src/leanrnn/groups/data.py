"""Components and groups: which rows and columns of which tensors exist only because of component k.

Two nouns carry the whole library. A **component** is one index of a recurrent width: hidden unit k of one layer and
direction. A **group** is every weight that exists only because that component exists. This file is plain data: it knows
nothing of operators, training or surgery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import GroupsError

__all__ = ["Given", "Held", "Indices", "Layer", "Link", "Masks", "Place", "Role", "Strip"]

Indices = NDArray[np.int64]
Masks = Mapping[str, NDArray[np.bool_]]
"""Per layer name, which components stay."""
Place = tuple[str, tuple[str | int, ...]]
"""A module's name, then the attribute and keys or positions inside it: ``("", ("sizes", 0))`` is ``model.sizes[0]``."""
Role = Literal["weight", "bias", "carried"]
"""``weight``: enters a matrix product, a convolution or a lookup; counted, penalised, thresholded.
``bias``: any other parameter; leaves with its component, and has to be zero where the value itself is read.
``carried``: leaves with its component but is never zeroed (running statistics, directions under a weight norm)."""


@dataclass(frozen=True, eq=False)
class Strip:
    """Where the components of one layer sit along one axis of one tensor.

    Position ``positions[i]`` of ``tensor`` along ``axis`` belongs to component ``components[i]``.
    """

    tensor: str
    axis: int
    shape: tuple[int, ...]
    positions: Indices
    components: Indices
    role: Role
    reader: bool = False
    """Whether the tensor reads the component here (a column), rather than producing it (a row)."""

    def counts(self, width: int) -> Indices:
        """Number of positions of every component."""
        return np.bincount(self.components, minlength=width).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Held:
    """Where the components of one layer sit along the last axis of a tensor that a module holds besides its parameters
    and buffers, such as the state of the last call."""

    module: str
    path: tuple[str | int, ...]
    """The attribute, then keys or positions inside it."""
    length: int
    positions: Indices
    components: Indices


@dataclass(frozen=True, eq=False)
class Given:
    """Where the components of one layer sit along the last axis of a state that the caller hands in and that counts as
    zero where they are dead."""

    input: int
    """Which of the tensors in the example."""
    row: int | None
    """The index along its first axis, if the others there belong to other layers."""
    length: int
    positions: Indices
    components: Indices


@dataclass(frozen=True)
class Link:
    """One operator that makes the group of a component what it is."""

    operator: str
    ties: str
    where: str


@dataclass(frozen=True, eq=False)
class Layer:
    """One width that can shrink on its own: a layer and direction, or several that share their components."""

    name: str
    width: int
    strips: tuple[Strip, ...]
    needs_zero_bias: bool = False
    """Whether something other than a weight reads the component (a dot product, a norm): then it is only
    dead when its biases are zero as well."""
    links: tuple[Link, ...] = ()
    recurrent: bool = True
    held: tuple[Held, ...] = ()
    given: tuple[Given, ...] = ()

    @property
    def readers(self) -> tuple[str, ...]:
        """Names of the weights that read the component."""
        return tuple(dict.fromkeys(s.tensor for s in self.strips if s.reader and s.role == "weight"))

    @property
    def group_sizes(self) -> Indices:
        """Weights in every group, crossings of a component's own row and column counted twice (the paper's way)."""
        total = np.zeros(self.width, dtype=np.int64)
        for strip in self.strips:
            if strip.role == "weight":
                total += strip.counts(self.width) * (_numel(strip.shape) // strip.shape[strip.axis])
        return total

    @property
    def group_size(self) -> int:
        """Weights in a group of this layer, biases left out, crossings counted twice (the largest, if they differ)."""
        return int(self.group_sizes.max(initial=0))

    @property
    def distinct_size(self) -> int:
        """Weights in a group of this layer, each counted once."""
        total = np.zeros(self.width, dtype=np.int64)
        for strips in _by_tensor(s for s in self.strips if s.role == "weight").values():
            untouched = np.ones(self.width, dtype=np.int64)
            shape = strips[0].shape
            for axis, size in enumerate(shape):
                counts = sum((s.counts(self.width) for s in strips if s.axis == axis), np.zeros(self.width, np.int64))
                untouched *= size - counts
            total += _numel(shape) - untouched
        return int(total.max(initial=0))

    def slices(self, k: int) -> list[tuple[str, int, int]]:
        """Everything that leaves with component ``k``: ``[(tensor name, axis, index), ...]``, biases and buffers
        too."""
        if not 0 <= k < self.width:
            raise GroupsError(f"layer {self.name!r} has no component {k}. Its components are 0 to {self.width - 1}.")
        return [(s.tensor, s.axis, int(i)) for s in self.strips for i in s.positions[s.components == k]]


def _numel(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _by_tensor(strips: Iterator[Strip]) -> dict[str, list[Strip]]:
    found: dict[str, list[Strip]] = {}
    for strip in strips:
        found.setdefault(strip.tensor, []).append(strip)
    return found


def layer_key(layer: Layer) -> tuple[tuple[str, int, bytes, bytes], ...]:
    """What tells a layer from others: the same places of the same tensors, whatever its name."""
    return tuple(sorted((s.tensor, s.axis, s.positions.tobytes(), s.components.tobytes()) for s in layer.strips))


def layer_to_data(layer: Layer) -> dict[str, Any]:
    """A layer as plain JSON data."""
    strips = [
        [s.tensor, s.axis, list(s.shape), s.positions.tolist(), s.components.tolist(), s.role, s.reader]
        for s in layer.strips
    ]
    links = [[link.operator, link.ties, link.where] for link in layer.links]
    return {
        "name": layer.name,
        "width": layer.width,
        "strips": strips,
        "needs_zero_bias": layer.needs_zero_bias,
        "links": links,
        "recurrent": layer.recurrent,
        "held": [[h.module, list(h.path), h.length, h.positions.tolist(), h.components.tolist()] for h in layer.held],
        "given": [[g.input, g.row, g.length, g.positions.tolist(), g.components.tolist()] for g in layer.given],
    }


def layer_from_data(data: Mapping[str, Any]) -> Layer:
    """A layer from :func:`layer_to_data`."""
    strips = tuple(
        Strip(t, int(a), tuple(shape), np.asarray(p, np.int64), np.asarray(c, np.int64), cast(Role, role), bool(reader))
        for t, a, shape, p, c, role, reader in data["strips"]
    )
    links = tuple(Link(*item) for item in data["links"])
    held = tuple(
        Held(module, tuple(path), int(length), np.asarray(positions, np.int64), np.asarray(components, np.int64))
        for module, path, length, positions, components in data["held"]
    )
    given = tuple(
        Given(int(i), row, int(length), np.asarray(positions, np.int64), np.asarray(components, np.int64))
        for i, row, length, positions, components in data.get("given", ())
    )
    return Layer(
        data["name"],
        int(data["width"]),
        strips,
        bool(data["needs_zero_bias"]),
        links,
        bool(data["recurrent"]),
        held,
        given,
    )
