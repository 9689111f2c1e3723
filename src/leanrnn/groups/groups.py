"""All widths of a model that can shrink, bound to the model: what leaves with which component, and what is left
after a cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leanrnn.errors import GroupsError
from leanrnn.groups.after import cut_layers
from leanrnn.groups.costs import Costs
from leanrnn.groups.data import Indices, Layer, Link, Masks, Place, Role, Strip, layer_from_data, layer_to_data
from leanrnn.groups.wrapped import bare

__all__ = ["Groups", "Indices", "Layer", "Link", "Role", "Strip"]

FORMAT = 1


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
        self.remembered: Sequence[tuple[str, tuple[str | int, ...], tuple[str, ...], int | None]] = ()
        """Numbers in the user's modules that are a width: (module, path, layers or a tensor, its axis)."""
        self.notes: list[str] = []
        """What else there is to know of the proof, for the user."""
        self.one_step: tuple[str, ...] = ()
        """Layers that take a single step in the example: what they are is known from their modules."""
        self.reading = ""
        """From which operators the groups were found, in words: the plain reading, or one that a model needed."""
        self.failed = False
        """Whether a width was offered and did not pass the proof."""
        self.unmet: Callable[[], str] | None = None
        """What a sparsifier that is attached has still to do, as it says itself; nothing if nothing is left."""
        self.cutter: Callable[[Masks], object] | None = None
        """Of a sparsifier that is attached: cuts model, optimizers and copies, and these groups."""
        self._model = model
        self._costs: Costs | None = None

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
    def costs(self) -> Costs:
        """What the model costs at any widths: ``groups.costs.mult_adds.at(groups.widths)``."""
        if self._costs is None:
            raise GroupsError("these groups know no costs. They come from leanrnn.discover: discover again.")
        return self._costs

    @costs.setter
    def costs(self, costs: Costs) -> None:
        self._costs = costs

    @property
    def model(self) -> nn.Module:
        """The model these groups speak of."""
        if self._model is None:
            raise GroupsError("these groups are not bound to a model. Call groups.bind(model) first.")
        return self._model

    def bind(self, model: nn.Module) -> Groups:
        """Make these groups speak of ``model`` (same tensor names and shapes); returns ``self``."""
        self.check(model)
        self._model = bare(model)
        return self

    def check(self, model: nn.Module) -> dict[str, Tensor]:
        """The tensors of ``model`` by name; raises if one of these groups has another shape there, or is missing."""
        tensors = named_tensors(bare(model))
        for layer in self.layers:
            for strip in layer.strips:
                shape = tuple(tensors[strip.tensor].shape) if strip.tensor in tensors else None
                if shape != strip.shape:
                    raise GroupsError(
                        f"tensor {strip.tensor!r} has shape {strip.shape} in these groups and {shape} in the model. "
                        "Use the model they were discovered on, or discover again."
                    )
        return tensors

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

    def kept_held(self, masks: Mapping[str, NDArray[np.bool_]]) -> dict[Place, tuple[int, Indices]]:
        """For every tensor that a module holds besides and that loses something: its length and what stays."""
        stay: dict[Place, NDArray[np.bool_]] = {}
        for layer in self.layers:
            for held in layer.held:
                mask = stay.setdefault((held.module, held.path), np.ones(held.length, dtype=np.bool_))
                mask[held.positions[~masks[layer.name][held.components]]] = False
        return {place: (len(mask), np.flatnonzero(mask)) for place, mask in stay.items() if not mask.all()}

    def cut(self, masks: Mapping[str, NDArray[np.bool_]]) -> tuple[Layer, ...]:
        """The layers as they are after the components outside ``masks`` were cut out of every tensor."""
        return cut_layers(self.layers, masks, self.kept_positions(masks), self.kept_held(masks))

    def to_json(self) -> str:
        """The groups as JSON text, without the model and the example."""
        return json.dumps(
            {
                "format": FORMAT,
                "layers": [layer_to_data(la) for la in self.layers],
                "pinned": self.pinned,
                "remembered": self.remembered,
                "notes": self.notes,
                "reading": self.reading,
                "costs": None if self._costs is None else self._costs.to_data(),
            }
        )

    @classmethod
    def from_json(cls, text: str, model: nn.Module | None = None) -> Groups:
        """Groups from :meth:`to_json`; with ``model`` they are bound to it at once."""
        try:
            data = json.loads(text)
            if data["format"] > FORMAT:
                raise GroupsError(f"these groups have format {data['format']}, newer than {FORMAT}. Update leanrnn.")
            layers = [layer_from_data(item) for item in data["layers"]]
            groups = cls(layers, [(str(n), str(r)) for n, r in data["pinned"]])
            groups.notes = [str(note) for note in data.get("notes", ())]
            groups.remembered = [
                (module, tuple(path), tuple(of), axis) for module, path, of, axis in data["remembered"]
            ]
            groups.reading = str(data.get("reading", ""))
            if data.get("costs"):
                groups.costs = Costs.from_data(data["costs"])
        except (ValueError, KeyError, TypeError) as error:
            raise GroupsError(
                f"this is not the JSON of leanrnn groups ({error}). Write it with groups.to_json()."
            ) from error
        return groups if model is None else groups.bind(model)

    def explain(self, name: str) -> str:
        """The chain of operators that makes a component's group, with source lines; also of a pinned width."""
        for pinned, reason in self.pinned:
            if pinned == name:
                return f"{name} is pinned: {reason}"
        layer = self[name]
        lines = [f"{layer.name}: {layer.width} components, {layer.group_size} weights in a group"]
        lines += [f"  found {self.reading}"] if self.reading else []
        lines += [f"  {link.operator:<22} {link.ties}\n{'':25}at {link.where}" for link in layer.links]
        lines.append("  component 0 leaves as")
        lines += [f"    {tensor} axis {axis} index {index}" for tensor, axis, index in layer.slices(0)]
        return "\n".join(lines)

    def __str__(self) -> str:
        rows = [("layer", "width", "group", "readers")]
        rows += [(la.name, str(la.width), str(la.group_size), ", ".join(la.readers) or "-") for la in self.layers]
        sizes = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{sizes[0]}}  {b:>{sizes[1]}}  {c:>{sizes[2]}}  {d}".rstrip() for a, b, c, d in rows]
        lines += [f"pinned {name}: {reason}" for name, reason in self.pinned]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer by name, shared ones under each of their names; not what is inside of compiled
    programs, where nothing can be cut."""
    found: dict[str, Tensor] = dict(model.named_buffers(remove_duplicate=False))
    found.update(model.named_parameters(remove_duplicate=False))
    programs = [f"{name}." for name, module in model.named_modules() if isinstance(module, torch.jit.ScriptModule)]
    return {name: tensor for name, tensor in found.items() if not name.startswith(tuple(programs))}


def index_tensor(positions: Indices, device: torch.device) -> Tensor:
    """Positions as an index tensor on ``device``."""
    return torch.from_numpy(np.ascontiguousarray(positions)).to(device)
