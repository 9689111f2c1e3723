"""Chosen components go to zero in a line: what takes them out of the model is multiplied by a little less every step.

The other components are left alone: no penalty pulls on what stays. Only the handles of a component fade, the weights
that read it (or make it, see :func:`~leanrnn.sparsify.saliency.handles`): at zero it is out of the model, whatever its
other weights are, and can be cut without a trace.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import GroupIndex
from leanrnn.sparsify.saliency import Handles

__all__ = ["Fade"]


class Fade:
    """The components that are on their way out. ::

    fade = Fade(groups)
    fade.mark({"rnn.l0": staying})
    fade.multiply_(0.5, parameters)
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._index = GroupIndex(groups, Handles(groups))
        self.staying: dict[str, NDArray[np.bool_]] = {}
        """Per layer which components stay; empty if all do."""
        self._fading: Tensor | None = None

    def __bool__(self) -> bool:
        return bool(self.staying)

    @property
    def counts(self) -> dict[str, int]:
        """By layer, how many components fade."""
        return {name: int((~mask).sum()) for name, mask in self.staying.items() if not mask.all()}

    def mark(self, staying: Masks) -> None:
        """From now on all components but these fade."""
        gone = any(not mask.all() for mask in staying.values())
        self.staying = {name: np.array(mask) for name, mask in staying.items()} if gone else {}
        self._fading = None

    @torch.no_grad()
    def multiply_(self, factor: float, only: Container[Tensor]) -> None:
        """Multiply the handles of what fades, as far as they are in ``only``; nothing waits for the device."""
        if not self.staying:
            return
        index = self._index.refresh()
        if self._fading is None or self._fading.device != index.device:
            gone = np.concatenate([~self.staying[name] for name in self._groups.names])
            marks = torch.from_numpy(gone.astype(np.float64)).to(index.device, index.dtype)
            # A place can belong to several groups (heads that share a weight): one that fades is enough.
            self._fading = index.spread(marks, 0.0).amax(0)
        factors = 1 - self._fading * (1 - factor)
        for entry in index.entries:
            if entry.tensor in only:
                for vector in entry.vectors(factors):
                    entry.tensor.mul_(vector)

    def cut_(self, masks: Masks) -> None:
        """Called with the components that stay, before the others are cut out of the groups."""
        self.mark({name: mask[masks[name]] for name, mask in self.staying.items()})

    def state_dict(self) -> dict[str, list[int]]:
        """By layer the components that fade, as plain data."""
        return {name: np.flatnonzero(~mask).tolist() for name, mask in self.staying.items()}

    def load_state_dict(self, state: Mapping[str, list[int]]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        widths = self._groups.widths
        self.mark({name: ~np.isin(np.arange(widths[name]), gone) for name, gone in state.items()})
