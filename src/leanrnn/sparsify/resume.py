"""A model at full width that takes the checkpoint of one that was cut, whatever framework loads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from leanrnn.errors import CheckpointError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.wrapped import bare
from leanrnn.sparsify.compaction import copy_root, cut_everywhere_
from leanrnn.sparsify.optimizers import unwrapped

__all__ = ["cut_to_", "resumable"]

Place = tuple[str, int]
"""A tensor and an axis."""


def resumable(
    model: nn.Module,
    groups: Groups,
    optimizer: Optimizer | Sequence[Optimizer] = (),
    copies: Sequence[nn.Module] = (),
) -> RemovableHandle:
    """Let ``model.load_state_dict`` take checkpoints of this model that were written after components were cut out.

    Build model, groups, optimizer and sparsifier as for a new training, and load as ever. Just before the model reads
    a checkpoint it is cut to the widths found there, with its optimizer, its copies and its sparsifier::

        groups = leanrnn.discover(model, example)
        sparsifier = leanrnn.Sparsifier(groups, budget=budget, steps=20_000).attach(optimizer)
        leanrnn.resumable(model, groups)
        model.load_state_dict(saved["model"])             # cut here
        optimizer.load_state_dict(saved["optimizer"])
        sparsifier.load_state_dict(saved["sparsifier"])

    With a sparsifier, ``optimizer`` and ``copies`` are those it is attached to. Without one, name here what is to be
    cut along with the model. A file does not say which components it has, and need not: all their numbers are in it.

    ``remove()`` of the handle that comes back ends it. :class:`~leanrnn.errors.CheckpointError` says which tensor does
    not fit if the checkpoint is of another model.
    """
    groups.check(model)
    optimizers = [unwrapped(o) for o in ([optimizer] if isinstance(optimizer, Optimizer) else optimizer)]
    for copy in copies:
        copy_root(copy, groups)

    def before(module: nn.Module, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        cut_to_(
            groups, {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}, optimizers, copies
        )

    handle: RemovableHandle = bare(model).register_load_state_dict_pre_hook(before)  # type: ignore[no-untyped-call]
    return handle


def cut_to_(
    groups: Groups, state: Mapping[str, Any], optimizers: Sequence[Optimizer] = (), copies: Sequence[nn.Module] = ()
) -> None:
    """Cut the model of these groups to the widths that a ``state_dict`` has, once, as :func:`resumable` does."""
    masks = _masks(groups, state)
    if all(mask.all() for mask in masks.values()):
        return
    if groups.cutter is not None:
        groups.cutter(masks)
    else:
        cut_everywhere_(groups, masks, copies, optimizers)
        groups.layers = groups.cut(masks)


def _masks(groups: Groups, state: Mapping[str, Any]) -> Masks:
    """Which components stay, so that every tensor gets the shape it has in the checkpoint: the first ones."""
    layers = list(groups)
    counts, gone = _equations(groups, state)
    if not gone:
        return {layer.name: np.ones(layer.width, np.bool_) for layer in layers}
    matrix = np.array(list(counts.values()), dtype=np.float64)
    removed = np.linalg.lstsq(matrix, np.array(list(gone.values()), dtype=np.float64), rcond=None)[0].round()
    for (name, axis), row in counts.items():
        if int(np.dot(row, removed)) != gone[name, axis]:
            raise _misfit(groups, state, name, "no widths of this model give it that shape")
    known = matrix.any(axis=0)
    if np.linalg.matrix_rank(matrix) < int(known.sum()):
        raise CheckpointError("the checkpoint leaves open which layers were cut. Use leanrnn.save and leanrnn.load.")
    widths = [layer.width - int(number) for layer, number in zip(layers, removed, strict=True)]
    for layer, width in zip(layers, widths, strict=True):
        if not 0 < width <= layer.width:
            raise CheckpointError(
                f"the checkpoint has {width} components in layer {layer.name!r}, the model {layer.width}. "
                "Load it into a new model of full width."
            )
    return {layer.name: np.arange(layer.width) < width for layer, width in zip(layers, widths, strict=True)}


def _equations(groups: Groups, state: Mapping[str, Any]) -> tuple[dict[Place, list[int]], dict[Place, int]]:
    """For every axis with components: how often each layer's components stand there, and by how much it is shorter."""
    tensors, places = groups.tensors(), _places(groups)
    counts: dict[Place, list[int]] = {}
    gone: dict[Place, int] = {}
    for (name, axis), owners in places.items():
        saved = state.get(name)
        if not isinstance(saved, Tensor):
            continue
        if saved.dim() != tensors[name].dim():
            raise _misfit(groups, state, name, "it has another number of axes")
        counts[name, axis] = [owners.get(layer.name, 0) for layer in groups]
        gone[name, axis] = tensors[name].size(axis) - saved.size(axis)
    return (counts, gone) if any(gone.values()) else ({}, {})


def _places(groups: Groups) -> dict[Place, dict[str, int]]:
    """How many positions of an axis one component of each layer takes."""
    owners: dict[Place, list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]] = {}
    for number, layer in enumerate(groups):
        for strip in layer.strips:
            owners.setdefault((strip.tensor, strip.axis), []).append((number, strip.positions, strip.components))
    found: dict[Place, dict[str, int]] = {}
    for place, parts in owners.items():
        whose = np.concatenate([np.full(len(positions), number) for number, positions, _ in parts])
        positions, components = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        order = positions.argsort()
        for number, run in _runs(whose[order], components[order]):
            layer = groups[number]
            if not _regular(run, layer.width):
                raise CheckpointError(
                    f"the components of {layer.name!r} stand out of order in {place[0]!r}, so a checkpoint does not "
                    "say which were kept. Use leanrnn.save and leanrnn.load."
                )
            own = found.setdefault(place, {})
            own[layer.name] = own.get(layer.name, 0) + len(run) // layer.width
    return found


def _runs(whose: NDArray[np.int64], components: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """Neighbouring positions of one layer."""
    starts = np.flatnonzero(np.diff(whose, prepend=-1))
    return [(int(whose[start]), part) for start, part in zip(starts, np.split(components, starts[1:]), strict=True)]


def _regular(run: NDArray[np.int64], width: int) -> bool:
    """Whether the components stand one after the other, all of them as often: then without the last ones they do, too,
    and it does not matter that others than the last ones were cut."""
    each = int(np.argmax(np.append(run, -1) != run[0]))
    if len(run) % (width * each):
        return False
    return np.array_equal(run, np.tile(np.repeat(np.arange(width), each), len(run) // (width * each)))


def _misfit(groups: Groups, state: Mapping[str, Any], name: str, why: str) -> CheckpointError:
    here = tuple(groups.tensors()[name].shape)
    return CheckpointError(
        f"the checkpoint has {name!r} with shape {tuple(state[name].shape)}, the model with {here}: {why}. "
        "It is of another model, or of this one with other settings."
    )
