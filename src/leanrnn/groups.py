"""Components and groups: which rows and columns of which tensors exist only because of component k.

Two nouns carry the whole library. A **component** is one index of a recurrent width: hidden unit k of one layer and
direction. A **group** is every weight that exists only because that component exists. This file is plain data: it knows
nothing of operators, training or surgery.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leanrnn.errors import GroupsError

__all__ = ["Groups", "Layer", "Link", "Role", "Strip"]

FORMAT = 1
Indices = NDArray[np.int64]
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
        """Everything that leaves with component ``k``: ``[(tensor name, axis, index), ...]``, biases and buffers too."""
        if not 0 <= k < self.width:
            raise GroupsError(f"layer {self.name!r} has no component {k}. Its components are 0 to {self.width - 1}.")
        return [(s.tensor, s.axis, int(i)) for s in self.strips for i in s.positions[s.components == k]]


class Groups:
    """The widths of a model that can shrink, each a :class:`Layer`, and those that cannot, with the reason.

    ``discover`` makes one; it is a sequence of layers, ordered as they run::

        groups = leanrnn.discover(model, example)
        for layer in groups:
            print(layer.name, layer.width, layer.group_size, layer.readers)
        print(groups.pinned)
    """

    def __init__(
        self, layers: Sequence[Layer], pinned: Sequence[tuple[str, str]] = (), model: nn.Module | None = None
    ) -> None:
        self.layers: tuple[Layer, ...] = tuple(layers)
        self.pinned: list[tuple[str, str]] = list(pinned)
        self.example: Any = None
        """The example the groups were discovered with; later checks run on it."""
        self.remembered: Sequence[tuple[str, tuple[str | int, ...], str]] = ()
        """Numbers in the user's modules that are a layer's width: (module name, path of the attribute, layer name)."""
        self._model = model

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, key: int | str) -> Layer:
        if isinstance(key, int):
            return self.layers[key]
        for layer in self.layers:
            if layer.name == key:
                return layer
        raise GroupsError(f"there is no layer {key!r}. The layers are {', '.join(self.names) or 'none'}.")

    @property
    def names(self) -> list[str]:
        """Names of the layers, in order."""
        return [layer.name for layer in self.layers]

    @property
    def widths(self) -> dict[str, int]:
        """Width of every layer by name."""
        return {layer.name: layer.width for layer in self.layers}

    @property
    def model(self) -> nn.Module:
        """The model these groups speak of."""
        if self._model is None:
            raise GroupsError("these groups are not bound to a model. Call groups.bind(model) first.")
        return self._model

    def bind(self, model: nn.Module) -> Groups:
        """Make these groups speak of ``model`` (same tensor names and shapes); returns ``self``."""
        tensors = named_tensors(model)
        for layer in self.layers:
            for strip in layer.strips:
                shape = tuple(tensors[strip.tensor].shape) if strip.tensor in tensors else None
                if shape != strip.shape:
                    raise GroupsError(
                        f"tensor {strip.tensor!r} has shape {strip.shape} in these groups and {shape} in the model. "
                        "Bind the model they were discovered on, or discover again."
                    )
        self._model = model
        return self

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter and buffer of the model by name, as it stands now."""
        return named_tensors(self.model)

    def strips(self) -> dict[str, list[tuple[int, Layer, Strip]]]:
        """Strips by tensor, each with the offset of its layer in the concatenation of all layers' components."""
        found: dict[str, list[tuple[int, Layer, Strip]]] = {}
        offset = 0
        for layer in self.layers:
            for strip in layer.strips:
                found.setdefault(strip.tensor, []).append((offset, layer, strip))
            offset += layer.width
        return found

    def keep_mask(self, keep: Mapping[str, Sequence[int] | Indices]) -> dict[str, NDArray[np.bool_]]:
        """Per layer, which components stay; a layer that ``keep`` does not name keeps all."""
        masks = {layer.name: np.ones(layer.width, dtype=np.bool_) for layer in self.layers}
        for name, indices in keep.items():
            layer, wanted = self[name], np.asarray(indices, dtype=np.int64).reshape(-1)
            if wanted.size and (wanted.min() < 0 or wanted.max() >= layer.width):
                raise GroupsError(
                    f"keep[{name!r}] has index {int(wanted.min() if wanted.min() < 0 else wanted.max())}. "
                    f"The components of that layer are 0 to {layer.width - 1}."
                )
            masks[name] = np.isin(np.arange(layer.width), wanted)
        return masks

    def kept_positions(self, masks: Mapping[str, NDArray[np.bool_]]) -> dict[tuple[str, int], Indices]:
        """For every tensor and axis that loses something, the positions that stay."""
        stay: dict[tuple[str, int], NDArray[np.bool_]] = {}
        for layer in self.layers:
            for strip in layer.strips:
                key = (strip.tensor, strip.axis)
                mask = stay.setdefault(key, np.ones(strip.shape[strip.axis], dtype=np.bool_))
                mask[strip.positions[~masks[layer.name][strip.components]]] = False
        return {key: np.flatnonzero(mask) for key, mask in stay.items() if not mask.all()}

    def cut(self, masks: Mapping[str, NDArray[np.bool_]]) -> tuple[Layer, ...]:
        """The layers as they are after the components outside ``masks`` were cut out of every tensor."""
        kept = self.kept_positions(masks)
        shapes: dict[str, list[int]] = {s.tensor: list(s.shape) for layer in self.layers for s in layer.strips}
        for (tensor, axis), positions in kept.items():
            shapes[tensor][axis] = len(positions)
        return tuple(_cut_layer(layer, masks[layer.name], kept, shapes) for layer in self.layers)

    def to_json(self) -> str:
        """The groups as JSON text, without the model and the example."""
        return json.dumps({"format": FORMAT, "layers": [_layer_to_data(la) for la in self.layers], "pinned": self.pinned})

    @classmethod
    def from_json(cls, text: str, model: nn.Module | None = None) -> Groups:
        """Groups from :meth:`to_json`; with ``model`` they are bound to it at once."""
        try:
            data = json.loads(text)
            if data["format"] > FORMAT:
                raise GroupsError(f"these groups have format {data['format']}, newer than {FORMAT}. Update leanrnn.")
            layers = [_layer_from_data(item) for item in data["layers"]]
            groups = cls(layers, [(str(n), str(r)) for n, r in data["pinned"]])
        except (ValueError, KeyError, TypeError) as error:
            raise GroupsError(f"this is not the JSON of leanrnn groups ({error}). Write it with groups.to_json().") from error
        return groups if model is None else groups.bind(model)

    def explain(self, name: str) -> str:
        """The chain of operators that makes a component's group, with source lines; also of a pinned width."""
        for pinned, reason in self.pinned:
            if pinned == name:
                return f"{name} is pinned: {reason}"
        layer = self[name]
        lines = [f"{layer.name}: {layer.width} components, {layer.group_size} weights in a group"]
        lines += [f"  {link.operator:<22} {link.ties}\n{'':25}at {link.where}" for link in layer.links]
        lines.append("  component 0 leaves as")
        lines += [f"    {tensor} axis {axis} index {index}" for tensor, axis, index in layer.slices(0)]
        return "\n".join(lines)

    def __str__(self) -> str:
        rows = [("layer", "width", "group", "readers")]
        rows += [(la.name, str(la.width), str(la.group_size), ", ".join(la.readers) or "-") for la in self.layers]
        sizes = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [
            f"{a:<{sizes[0]}}  {b:>{sizes[1]}}  {c:>{sizes[2]}}  {d}".rstrip() for a, b, c, d in rows
        ]
        lines += [f"pinned {name}: {reason}" for name, reason in self.pinned]
        return "\n".join(lines)

    __repr__ = __str__


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer by name, shared ones under each of their names."""
    found: dict[str, Tensor] = dict(model.named_buffers(remove_duplicate=False))
    found.update(model.named_parameters(remove_duplicate=False))
    return found


def index_tensor(positions: Indices, device: torch.device) -> Tensor:
    """Positions as an index tensor on ``device``."""
    return torch.from_numpy(np.ascontiguousarray(positions)).to(device)


def _numel(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _by_tensor(strips: Iterator[Strip]) -> dict[str, list[Strip]]:
    found: dict[str, list[Strip]] = {}
    for strip in strips:
        found.setdefault(strip.tensor, []).append(strip)
    return found


def _cut_layer(
    layer: Layer, mask: NDArray[np.bool_], kept: Mapping[tuple[str, int], Indices], shapes: Mapping[str, list[int]]
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
    return replace(layer, width=int(mask.sum()), strips=tuple(strips))


def _layer_to_data(layer: Layer) -> dict[str, Any]:
    strips = [
        [s.tensor, s.axis, list(s.shape), s.positions.tolist(), s.components.tolist(), s.role, s.reader] for s in layer.strips
    ]
    links = [[link.operator, link.ties, link.where] for link in layer.links]
    return {
        "name": layer.name,
        "width": layer.width,
        "strips": strips,
        "needs_zero_bias": layer.needs_zero_bias,
        "links": links,
        "recurrent": layer.recurrent,
    }


def _layer_from_data(data: Mapping[str, Any]) -> Layer:
    strips = tuple(
        Strip(t, int(a), tuple(shape), np.asarray(p, np.int64), np.asarray(c, np.int64), cast(Role, role), bool(reader))
        for t, a, shape, p, c, role, reader in data["strips"]
    )
    links = tuple(Link(*item) for item in data["links"])
    return Layer(data["name"], int(data["width"]), strips, bool(data["needs_zero_bias"]), links, bool(data["recurrent"]))
