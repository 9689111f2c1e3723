"""Compaction besides surgery on one model: its copies and optimizers, a record, states carried along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from leanrnn.errors import GroupsError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups, Indices, index_tensor, named_tensors
from leanrnn.groups.wrapped import bare
from leanrnn.layers.states import Former, compose
from leanrnn.sparsify.optimizers import check_state, replace_parameters_
from leanrnn.surgery.cut import cut_

__all__ = ["Compaction", "PastCuts", "copy_root", "cut_everywhere_"]


@dataclass(frozen=True, eq=False)
class Compaction:
    """What one compaction removed; true if anything was. ::

    if record := sparsifier.compact():
        print(record)       # step 4000: rnn.l0 -31 = 169, rnn.l1 -12 = 180
    """

    step: int
    removed: dict[str, Indices]
    """Per layer the components that went, numbered as before."""
    widths: dict[str, int]
    """Width of every layer afterwards."""

    def __bool__(self) -> bool:
        return any(len(gone) for gone in self.removed.values())

    def __str__(self) -> str:
        parts = [f"{name} -{len(gone)} = {self.widths[name]}" for name, gone in self.removed.items() if len(gone)]
        return f"step {self.step}: {', '.join(parts) or 'nothing removed'}"


def copy_root(copy: nn.Module, groups: Groups) -> nn.Module:
    """The module inside ``copy`` that has the tensors of the groups: itself, or what it wraps (AveragedModel does)."""
    wanted = {strip.tensor for layer in groups for strip in layer.strips}
    inner = getattr(copy, "module", None)
    for root in (bare(each) for each in (copy, inner) if isinstance(each, nn.Module)):
        if wanted <= named_tensors(root).keys():
            Groups(groups.layers).bind(root)
            return root
    missing = sorted(wanted - named_tensors(copy).keys())[0]
    raise GroupsError(f"a copy has no tensor {missing!r}. Give copies of the model the groups were discovered on.")


def cut_everywhere_(groups: Groups, masks: Masks, copies: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> None:
    """Keep what is chosen in the model, its copies, and what the optimizers know of its parameters; the groups are the
    caller's to cut. Everything that can be refused is, before anything is changed."""
    roots = [copy_root(copy, groups) for copy in copies]
    tensors = named_tensors(groups.model)
    check_state(optimizers, {name: tensors[name] for name, _ in groups.kept_positions(masks)})
    replaced = cut_(groups.model, groups, masks, plain=False)
    for root in roots:
        cut_(root, groups, masks, plain=False)
    for optimizer in optimizers:
        replace_parameters_(optimizer, replaced)


class PastCuts:
    """Every cut there was of every layer, so that a state made before it can be cut too."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._former: dict[str, Former] = {name: {} for name in groups.names}

    def record(self, masks: Masks) -> None:
        """A cut that is about to happen."""
        for name, mask in masks.items():
            if not mask.all():
                self._former[name] = compose(self._former[name], len(mask), np.flatnonzero(mask).tolist())

    def cut(self, state: Any, layer: str | None) -> Any:
        """``state`` with every tensor of a former width cut to today's, see :meth:`Sparsifier.cut_state`."""
        names = self._groups.names if layer is None else [self._groups[layer].name]
        return _mapped(state, lambda tensor: self._cut_tensor(tensor, names))

    def _cut_tensor(self, tensor: Tensor, names: Sequence[str]) -> Tensor:
        if not tensor.is_floating_point() or tensor.dim() == 0:
            return tensor
        width, widths = tensor.size(-1), self._groups.widths
        options = {tuple(self._former[name][width]) for name in names if width in self._former[name]}
        # A tensor of today's width of one layer and a former width of another can be either.
        today = any(widths[name] == width for name in names)
        if len(options) + today > 1:
            raise GroupsError(
                f"a state of width {width} can belong to several layers that lost different components. "
                f"Say which with cut_state(state, layer=name); the layers are {', '.join(self._groups.names)}."
            )
        if not options:
            return tensor
        kept = index_tensor(np.asarray(options.pop(), dtype=np.int64), tensor.device)
        return tensor.index_select(-1, kept)


def _mapped(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``change`` applied to every tensor of a nested structure."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, Mapping):
        return {key: _mapped(value, change) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        items = [_mapped(value, change) for value in state]
        return type(state)(*items) if hasattr(state, "_fields") else type(state)(items)
    return state
