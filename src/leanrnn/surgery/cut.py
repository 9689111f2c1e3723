"""Cut components out of a model in place: every tensor at once, under every name that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from leanrnn.errors import GroupsError
from leanrnn.groups.data import Masks, Place
from leanrnn.groups.groups import Groups, index_tensor, named_tensors
from leanrnn.running.attributes import get_attribute, set_attribute
from leanrnn.surgery.modules import plain_, refit_
from leanrnn.surgery.plan import Plan, plan_of, set_plan

__all__ = ["Replaced", "cut_", "cut_held_", "cut_tensors_", "new_length"]

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Replaced:
    """A parameter that gave way to a smaller one; an optimizer has to follow."""

    old: nn.Parameter
    new: nn.Parameter
    kept: dict[int, Indices]
    """Positions that stay, by axis."""


@dataclass(frozen=True, eq=False)
class _Cut:
    old: Tensor
    new: Tensor
    kept: dict[int, Indices]


def cut_(model: nn.Module, groups: Groups, masks: Masks, plain: bool = True) -> list[Replaced]:
    """Cut all components outside ``masks`` out of ``model``, in place; ``groups`` stays as it is.

    With ``plain`` a recurrent module whose widths agree stays torch's own; without, it becomes one that also accepts
    states of its former widths, as training needs it::

        masks = groups.keep_mask({"rnn.0": [0, 1, 5]})
        replaced = cut_(model, groups, masks)
        groups.layers = groups.cut(masks)
    """
    for layer in groups:
        if not masks[layer.name].any():
            raise GroupsError(f"no component of layer {layer.name!r} would stay. Keep at least one, the largest.")
    tensors = groups.check(model)
    positions = groups.kept_positions(masks)
    numbers = {
        (module, path): get_attribute(model, module, path) for module, path, of, _ in groups.remembered if not of
    }
    lengths = {(name, axis): tensors[name].size(axis) for name, axis in positions}
    replaced = cut_tensors_(model, positions, plain)
    for module, path, of, axis in groups.remembered:
        if of and (axis is not None or all(name in masks for name in of)):
            numbers[module, path] = new_length(model, of, axis, masks)
    for (module, path), value in numbers.items():
        set_attribute(model, module, path, value)
    held = groups.kept_held(masks)
    cut_held_(model, held)
    set_plan(model, (plan_of(model) or Plan()).then(masks, positions, lengths, numbers, held, plain))
    return replaced


def cut_held_(model: nn.Module, held: Mapping[Place, tuple[int, Indices]]) -> None:
    """Keep only these positions of the last axis of tensors that modules hold; one that is not there now is left out,
    as states come and go."""
    for (module, path), (length, kept) in held.items():
        try:
            tensor = get_attribute(model, module, path)
        except (AttributeError, LookupError, TypeError):
            continue
        if isinstance(tensor, Tensor) and tensor.dim() and tensor.size(-1) == length:
            set_attribute(model, module, path, _picked(tensor.detach(), {-1: kept}))


def new_length(model: nn.Module, of: Sequence[str], axis: int | None, masks: Masks) -> int:
    """How wide layers are together, or how long the axis of a tensor is, in a model that was just cut."""
    return sum(int(masks[name].sum()) for name in of) if axis is None else named_tensors(model)[of[0]].size(axis)


def cut_tensors_(model: nn.Module, positions: Mapping[tuple[str, int], Indices], plain: bool) -> list[Replaced]:
    """Keep only ``positions`` of the named tensors and axes, and bring every module in line with it."""
    cuts = _new_tensors(named_tensors(model), positions)
    by_old = {id(cut.old): cut for cut in cuts}
    by_new = {id(cut.new): cut for cut in cuts}
    touched = {id(module) for module in model.modules() if _swap_registered(module, by_old)}
    for module in model.modules():
        _swap_attributes(module, by_old)

    def kept(module: nn.Module, name: str, axis: int) -> tuple[int, Sequence[int]] | None:
        for tensor in _sources(module, name):
            cut = by_new.get(id(tensor))
            if cut is not None and axis in cut.kept:
                return cut.old.size(axis), cut.kept[axis].tolist()
        return None

    with torch.no_grad(), _still(model):
        for module in model.modules():
            if id(module) in touched or _parametrized_by(module, touched):
                refit_(module, kept, plain)
            elif plain:
                plain_(module)
    pairs = [(cut.old, cut.new, cut.kept) for cut in cuts]
    return [Replaced(o, n, k) for o, n, k in pairs if isinstance(o, nn.Parameter) and isinstance(n, nn.Parameter)]


@contextmanager
def _still(model: nn.Module) -> Iterator[None]:
    """Looking at a parametrized weight computes it, and a spectral norm that trains takes a step each time."""
    lists = (cast(nn.ModuleDict, m.parametrizations) for m in model.modules() if parametrize.is_parametrized(m))
    training = [part for parts in lists for part in parts.modules() if part.training]
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


def _new_tensors(tensors: Mapping[str, Tensor], positions: Mapping[tuple[str, int], Indices]) -> list[_Cut]:
    wanted: dict[int, tuple[Tensor, dict[int, Indices]]] = {}
    for (name, axis), kept in positions.items():
        if name not in tensors:
            raise GroupsError(f"the model has no tensor {name!r}. Use the model the groups were discovered on.")
        axes = wanted.setdefault(id(tensors[name]), (tensors[name], {}))[1]
        if axis in axes and not np.array_equal(axes[axis], kept):
            raise GroupsError(f"tensor {name!r} is tied, and its names keep different positions. Discover again.")
        axes[axis] = kept
    return [_Cut(old, _smaller(old, axes), axes) for old, axes in wanted.values()]


def _smaller(old: Tensor, kept: Mapping[int, Indices]) -> Tensor:
    data = _picked(old.detach(), kept)
    if not isinstance(old, nn.Parameter):
        return data.requires_grad_(old.requires_grad)
    if type(old) is nn.Parameter:
        new = nn.Parameter(data, requires_grad=old.requires_grad)
    else:
        new = torch.Tensor._make_subclass(type(old), data, old.requires_grad)
    vars(new).update(vars(old))
    new.grad = None if old.grad is None else _picked(old.grad, kept)
    return new


def _picked(tensor: Tensor, kept: Mapping[int, Indices]) -> Tensor:
    for axis, positions in kept.items():
        tensor = tensor.index_select(axis, index_tensor(positions, tensor.device))
    return tensor


def _swap_registered(module: nn.Module, by_old: Mapping[int, _Cut]) -> bool:
    """Put the new tensors into the module's own tables; whether there was one."""
    found = False
    for table in (module._parameters, module._buffers):
        for name, tensor in table.items():
            if id(tensor) in by_old:
                table[name] = cast(Any, by_old[id(tensor)].new)
                found = True
    return found


def _swap_attributes(module: nn.Module, by_old: Mapping[int, _Cut]) -> None:
    """Follow plain attributes, and lists and mappings in them, that hold one of the old tensors."""
    for name, value in vars(module).items():
        if name not in ("_parameters", "_buffers", "_modules"):
            vars(module)[name] = _swapped(value, by_old, 4)


def _swapped(value: Any, by_old: Mapping[int, _Cut], depth: int) -> Any:
    if isinstance(value, Tensor):
        return by_old[id(value)].new if id(value) in by_old else value
    if depth and type(value) is list:
        value[:] = [_swapped(item, by_old, depth - 1) for item in value]
    elif depth and type(value) is dict:
        value.update({key: _swapped(item, by_old, depth - 1) for key, item in value.items()})
    elif depth and type(value) is tuple:
        return tuple(_swapped(item, by_old, depth - 1) for item in value)
    return value


def _sources(module: nn.Module, name: str) -> list[Tensor]:
    """The tensor of that name, or those it is computed from under a parametrization."""
    own: Tensor | None = module._parameters.get(name)
    own = module._buffers.get(name) if own is None else own
    if own is not None or not parametrize.is_parametrized(module, name):
        return [] if own is None else [own]
    shape = getattr(module, name).shape
    originals = cast(nn.ModuleDict, module.parametrizations)[name].parameters(recurse=False)
    return [p for p in originals if p.shape == shape]


def _parametrized_by(module: nn.Module, touched: set[int]) -> bool:
    return parametrize.is_parametrized(module) and any(
        id(part) in touched for part in cast(nn.ModuleDict, module.parametrizations).values()
    )
