"""Saliency: how much the loss would feel a component going, read off weights and gradients that are there anyway."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leanrnn.errors import GroupsError
from leanrnn.groups.data import Layer, Masks, Strip
from leanrnn.groups.groups import Groups, index_tensor
from leanrnn.groups.norms import GroupIndex

__all__ = ["Handles", "Saliency", "handles"]


class Saliency:
    """The squared derivative of the loss by a factor on each component, averaged over batches.

    For the weights that read a component, the sum of weight times gradient is the derivative of the loss by a factor
    on what they read: no hook is needed, and any cell will do. A component with little saliency can go and the loss
    hardly moves. To cut a trained model at once::

        saliency = leanrnn.Saliency(groups)
        for batch in batches:
            model.zero_grad()
            loss_fn(model(batch.x), batch.y).backward()
            saliency.update()
        order = saliency.scores()["rnn.l0"].argsort(descending=True)
        small = leanrnn.shrink(model, groups, keep={"rnn.l0": order[:100].tolist()})

    What a component is judged by (:func:`handles`): the weights that read it. A component that something else reads as
    well (a dot product, a norm), or that a frozen weight reads, is judged by the weights and biases that make it,
    which for a linear layer is the same derivative. A matrix that is embedding and output at once counts as a whole:
    the derivative is by a factor on both its uses.

    Args:
        groups: whose components are judged, also after they were cut (:meth:`cut_`).
        window: over about how many readings the average runs; all count the same by default.
    """

    def __init__(self, groups: Groups, *, window: float = math.inf) -> None:
        if not window >= 1:
            raise GroupsError(f"window is {window}. Give a number of readings, at least 1.")
        self.groups, self.window, self.readings = groups, window, 0
        self._index = GroupIndex(groups, Handles(groups))
        self._scores = self._blank()
        self._parts: dict[int, Tensor] = {}

    def update(self, scale: float | Tensor = 1.0) -> None:
        """Read the gradients of one backward pass, after ``loss.backward()``; nothing waits for the device.

        Under a ``GradScaler`` call it after ``scaler.unscale_(optimizer)``, or give the ``scale`` of the gradients. A
        reading with an infinite or undefined number in it does not count.
        """
        self.read(scale=scale)
        self.close()

    def read(self, only: Container[Tensor] | None = None, scale: float | Tensor = 1.0, part: int = 0) -> None:
        """The part of a reading that the parameters in ``only`` add; read again, it replaces what it was."""
        self._parts[part] = self._index.refresh().slopes(only) / scale

    @torch.no_grad()
    def close(self) -> None:
        """Add up the parts of a reading, and take its square into the average."""
        if not self._parts:
            return
        new = torch.stack(list(self._parts.values())).sum(0).square()
        self._parts = {}
        self.readings += 1
        old = self._checked().to(new)
        mixed = torch.lerp(old, new, max(1 / self.readings, 1 / self.window))
        self._scores = torch.where(new.isfinite().all(), mixed, old)

    def scores(self) -> dict[str, Tensor]:
        """The saliency of every component by layer, on the device: ``saliency.scores()["rnn.l0"].argsort()``."""
        if not self.readings:
            raise GroupsError("there is no saliency yet. Call saliency.update() after loss.backward() of some batches.")
        return self._index.by_layer(self._checked())

    def cut_(self, masks: Masks) -> None:
        """Called with the components that stay, before the others are cut out of the groups."""
        kept = np.flatnonzero(np.concatenate([masks[name] for name in self.groups.names]))
        self._scores = self._scores[index_tensor(kept, self._scores.device)]
        self._parts = {}

    def state_dict(self) -> dict[str, Any]:
        """Readings and scores, as plain data that fits into JSON."""
        return {"readings": self.readings, "scores": self._scores.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        if len(state["scores"]) != len(self._blank()):
            raise GroupsError("the saliency is of other widths. Give a state of groups that were cut alike.")
        self.readings = int(state["readings"])
        self._scores = self._blank() + torch.tensor(state["scores"], dtype=self._index.dtype).to(self._index.device)

    def _checked(self) -> Tensor:
        if len(self._scores) != sum(self._index.refresh().widths):
            raise GroupsError("the groups were cut without their saliency. Call saliency.cut_(masks) before it.")
        return self._scores

    def _blank(self) -> Tensor:
        index = self._index.refresh()
        return torch.zeros(sum(index.widths), dtype=index.dtype, device=index.device)


class Handles:
    """Whether a strip is one of the :func:`handles`, as ``GroupIndex`` asks; looked up again when the groups were cut.
    ::

        GroupIndex(groups, Handles(groups))
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._refresh()

    def __call__(self, layer: Layer, strip: Strip) -> bool:
        if self._groups.layers is not self._layers:
            self._refresh()
        return strip in self._strips

    def _refresh(self) -> None:
        self._layers = self._groups.layers
        self._strips = {strip for strips in handles(self._groups).values() for strip in strips}


def handles(groups: Groups) -> dict[str, tuple[Strip, ...]]:
    """By layer, the strips that take its components out of the model when they go to zero: the weights that read them,
    or the weights and biases that make them. All of them are trainable. ::

        [strip.tensor for strip in handles(groups)["rnn.l0"]]
    """
    tensors = groups.tensors()
    return {layer.name: _handle(layer, tensors) for layer in groups}


def _handle(layer: Layer, tensors: Mapping[str, Tensor]) -> tuple[Strip, ...]:
    readers = tuple(s for s in layer.strips if s.role == "weight" and s.reader)
    makers = tuple(s for s in layer.strips if s.role in ("weight", "bias") and not s.reader)
    ways = (makers,) if layer.needs_zero_bias or not readers else (readers, makers)
    frozen = [[s.tensor for s in way if not tensors[s.tensor].requires_grad] for way in ways]
    for way, still in zip(ways, frozen, strict=True):
        if way and not still:
            return way
    named = frozen[0][0] if frozen[0] else "what makes them"
    raise GroupsError(
        f"what the components of {layer.name!r} are worth is not known, as {named!r} does not train. "
        "Train it, or leave the layer out in discover."
    )
