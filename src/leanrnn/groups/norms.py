"""Norms of all groups at once: one pass over each matrix, never a list of weights per component.

The squared row sums and column sums of every matrix are laid end to end in one flat vector, a place per position of an
axis. A group is a handful of these places, so its squared norm is a gather and a sum; the way back (a number per group
to a factor per row and column) is one gather too. Both are deterministic on every device, which scattering with atomic
additions is not: replicas of a model stay bit-identical.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leanrnn.groups.groups import Groups, Indices, Layer, Strip, index_tensor
from leanrnn.groups.slabs import Slab, products_of, slabs_of

__all__ = ["Biases", "Entry", "GroupIndex", "alive", "counting", "group_norms", "is_weight"]

Wanted = Callable[[Layer, Strip], bool]
Biases = bool | Literal["needed"]
"""Whether biases are meant too: all, none, or those of layers that are only dead when their biases are zero."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One tensor with strips, and where the positions of its axes stand in the flat vector."""

    name: str
    tensor: Tensor
    axes: tuple[int, ...]
    spans: tuple[slice, ...]

    def vectors(self, flat: Tensor) -> Iterator[Tensor]:
        """The part of ``flat`` of every axis, shaped to broadcast against the tensor, on its device, in its dtype."""
        for axis, span in zip(self.axes, self.spans, strict=True):
            shape = [1] * self.tensor.dim()
            shape[axis] = -1
            yield flat[span].to(self.tensor.device, self.tensor.dtype).view(shape)


class GroupIndex:
    """Maps between groups and the positions of all axes that carry strips.

    The numbers of groups run through all layers, in order. Rebuilt by itself when the groups were cut, a parameter was
    replaced or the model moved to another device. ::

        index = GroupIndex(groups, is_weight)
        index.squares().sqrt()          # norms of all groups, no synchronisation
    """

    def __init__(self, groups: Groups, wanted: Wanted) -> None:
        self.groups, self._wanted = groups, wanted
        self._build()

    def refresh(self) -> GroupIndex:
        """Rebuild if groups or parameters changed; returns ``self``."""
        if self.groups.layers is not self._layers or not self._current():
            self._build()
        return self

    @property
    def widths(self) -> list[int]:
        """Widths of the layers, in order."""
        return [layer.width for layer in self._layers]

    def by_layer(self, values: Tensor) -> dict[str, Tensor]:
        """A number per group, taken apart into the layers."""
        return dict(zip(self.groups.names, torch.split(values, self.widths), strict=True))

    def squares(self) -> Tensor:
        """Sum of squares of every group."""
        return self._reduce(self._filled(lambda block, out: torch.mul(block, block, out=out)), torch.sum, Tensor.add_)

    def largest(self) -> Tensor:
        """Largest magnitude in every group: zero only where every element is exactly zero."""
        return self._reduce(self._filled(lambda block, out: torch.abs(block, out=out)), torch.amax, _maximum_)

    def slopes(self, only: Container[Tensor] | None = None) -> Tensor:
        """Sum of weight times gradient of every group: the derivative by a factor on all its places at once.
        Parameters without a gradient, or not in ``only``, add nothing."""

        def products(entry: Entry) -> Iterator[Slab]:
            tensor = entry.tensor
            if tensor.grad is not None and (only is None or tensor in only):
                yield from products_of(tensor.detach(), tensor.grad, self.dtype)

        return self._reduce(products, torch.sum, Tensor.add_)

    def spread(self, values: Tensor, fill: float) -> Tensor:
        """A number per group to its places in the flat vector, ``fill`` elsewhere; a row per group of a place."""
        padded = torch.cat((values, values.new_full((1,), fill)))
        return padded[self._ids]

    def _build(self) -> None:
        groups = self.groups
        self._layers = groups.layers
        tensors, total = groups.tensors(), sum(layer.width for layer in groups.layers)
        self.entries: list[Entry] = []
        places, ids, size = [], [], 0
        for name, found in groups.strips().items():
            strips = [(offset, strip) for offset, layer, strip in found if self._wanted(layer, strip)]
            axes, spans = sorted({strip.axis for _, strip in strips}), []
            for axis in axes:
                here = [(offset, strip) for offset, strip in strips if strip.axis == axis]
                places += [size + strip.positions for _, strip in here]
                ids += [offset + strip.components for offset, strip in here]
                spans.append(slice(size, size + here[0][1].shape[axis]))
                size = spans[-1].stop
            if axes:
                self.entries.append(Entry(name, tensors[name], tuple(axes), tuple(spans)))
        self._size = size
        self._place(np.concatenate([*places, _EMPTY]), np.concatenate([*ids, _EMPTY]), total)

    def _place(self, places: Indices, ids: Indices, total: int) -> None:
        first = self.entries[0].tensor if self.entries else torch.empty(0)
        self.device = first.device
        wide = any(entry.tensor.dtype in (torch.float64, torch.complex128) for entry in self.entries)
        self.dtype = torch.float64 if wide else torch.float32
        self._devices = [entry.tensor.device for entry in self.entries]
        self._ids = index_tensor(_padded(places, ids, self._size, total).T, self.device)
        self._tables, offset = [], 0
        for width in self.widths:
            mine = (ids >= offset) & (ids < offset + width)
            table = _padded(ids[mine] - offset, places[mine], width, self._size)
            self._tables.append(index_tensor(table, self.device))
            offset += width

    def _current(self) -> bool:
        model = self.groups.model
        for entry, device in zip(self.entries, self._devices, strict=True):
            path, _, leaf = entry.name.rpartition(".")
            owner = model.get_submodule(path)
            if entry.tensor is not owner._parameters.get(leaf) and entry.tensor is not owner._buffers.get(leaf):
                return False
            if entry.tensor.device != device:
                return False
        return True

    def _filled(self, prepare: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Entry], Iterator[Slab]]:
        return lambda entry: slabs_of(entry.tensor, self.dtype, prepare)

    @torch.no_grad()
    def _reduce(
        self,
        blocks: Callable[[Entry], Iterator[Slab]],
        reduce: Callable[..., Tensor],
        merge: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        # One place more than there are positions: the padding of the tables points at this zero.
        flat = torch.zeros(self._size + 1, dtype=self.dtype, device=self.device)
        for entry in self.entries:
            for lo, hi, block in blocks(entry):
                for axis, span in zip(entry.axes, entry.spans, strict=True):
                    others = [d for d in range(block.dim()) if d != axis]
                    part = reduce(block, dim=others) if others else block
                    place = flat[span][lo:hi] if axis == 0 else flat[span]
                    merge(place, part.to(self.device))
        sums = [reduce(flat[table], dim=[1]) for table in self._tables]
        return torch.cat(sums) if sums else flat[:0]


def is_weight(layer: Layer, strip: Strip) -> bool:
    """Whether a strip counts in the norm of a group: weights do, biases and buffers do not."""
    return strip.role == "weight"


def counting(biases: Biases) -> Wanted:
    """The strips of weights, and of the biases that are meant: ``GroupIndex(groups, counting("needed"))``."""
    if biases == "needed":
        return lambda layer, strip: is_weight(layer, strip) or (strip.role == "bias" and layer.needs_zero_bias)
    roles = ("weight", "bias") if biases else ("weight",)
    return lambda layer, strip: strip.role in roles


def group_norms(groups: Groups) -> dict[str, Tensor]:
    """Euclidean norm of every group by layer, crossings counted twice: ``group_norms(groups)["rnn"].argsort()``."""
    index = GroupIndex(groups, is_weight)
    return index.by_layer(index.squares().sqrt())


def alive(groups: Groups) -> dict[str, NDArray[np.bool_]]:
    """Per layer, which components are not dead. Dead: every weight of the group is exactly zero, and every bias as
    well where the value itself is read (``layer.needs_zero_bias``). ::

        {name: int(mask.sum()) for name, mask in alive(groups).items()}
    """
    index = GroupIndex(groups, counting("needed"))
    return {name: mask.numpy() for name, mask in index.by_layer((index.largest() != 0).cpu()).items()}


_EMPTY: Indices = np.empty(0, dtype=np.int64)


def _padded(keys: Indices, values: Indices, rows: int, fill: int) -> Indices:
    """Row ``k`` lists the values whose key is ``k``, filled up to the longest list (one column at least)."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    rank = np.arange(len(keys)) - np.searchsorted(keys, keys)
    table = np.full((rows, int(rank.max(initial=0)) + 1), fill, dtype=np.int64)
    table[keys, rank] = values
    return table


def _maximum_(place: Tensor, part: Tensor) -> Tensor:
    return torch.maximum(place, part, out=place)
