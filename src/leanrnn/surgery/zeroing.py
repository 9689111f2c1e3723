"""Zero components in place: the other half of every proof."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from leanrnn.groups.data import Layer, Masks
from leanrnn.groups.groups import index_tensor, named_tensors

__all__ = ["zero_"]


@torch.no_grad()
def zero_(model: nn.Module, layers: Iterable[Layer], masks: Masks) -> None:
    """Zero the weights and biases of all components outside ``masks``, in place; carried parameters become one."""
    tensors = named_tensors(model)
    for layer in layers:
        gone = ~masks[layer.name]
        for strip in layer.strips:
            positions = strip.positions[gone[strip.components]]
            tensor = tensors[strip.tensor]
            if len(positions) and isinstance(tensor, nn.Parameter):
                # What is carried may be divided by; nothing else depends on it where the component is zero.
                value = 1 if strip.role == "carried" else 0
                tensor.index_fill_(strip.axis, index_tensor(positions, tensor.device), value)
