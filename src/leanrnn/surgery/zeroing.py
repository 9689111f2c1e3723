"""Zero components in place: the other half of every proof."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from leanrnn.groups.data import Layer, Masks
from leanrnn.groups.groups import index_tensor, named_tensors
from leanrnn.running.call import leaves
from leanrnn.running.copies import copy_example

__all__ = ["zero_", "zeroed_example"]


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


@torch.no_grad()
def zeroed_example(example: Any, layers: Iterable[Layer], masks: Masks) -> Any:
    """The example as a model with these components at zero would meet it: states that it returned are zero there."""
    given = [(item, ~masks[layer.name]) for layer in layers for item in layer.given]
    if not given:
        return example
    example = copy_example(example)
    tensors = leaves(example)
    for item, gone in given:
        tensor = tensors[item.input] if item.input < len(tensors) else None
        if tensor is not None and tensor.dim() and tensor.size(-1) == item.length:
            part = tensor if item.row is None else tensor[item.row]
            part.index_fill_(-1, index_tensor(item.positions[gone[item.components]], tensor.device), 0)
    return example
