"""A second set of weights, the average of the first over the last steps: the noise of single steps is not in it.

At a high learning rate the average is better than the weights it is of, so training can stay there for longer.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = ["average_of", "put_back_", "stored", "update_"]

Module = TypeVar("Module", bound=nn.Module)
PREFIX = "average."


def average_of(model: Module, shared: Mapping[int, object] | None = None) -> Module:
    """A copy to begin with, which is never trained; tensors in ``shared``, by their id, are the same in both. ::

    average = average_of(model)
    """
    return copy.deepcopy(model, dict(shared or {})).eval()


@torch.no_grad()
def update_(average: nn.Module, model: nn.Module, keep: float) -> None:
    """Let the average keep this part of itself, and take the rest from the model. ::

    update_(average, model, 0.999)  # after every step of the optimizer
    """
    pairs = zip(average.parameters(), model.parameters(), strict=True)
    mean, now = zip(*((a, p) for a, p in pairs if p.requires_grad), strict=True)
    torch._foreach_lerp_(mean, now, 1 - keep)


def stored(average: nn.Module) -> dict[str, Tensor]:
    """What a checkpoint holds of it."""
    return {f"{PREFIX}{name}": p.detach() for name, p in average.named_parameters() if p.requires_grad}


@torch.no_grad()
def put_back_(average: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The reverse of it."""
    for name, parameter in average.named_parameters():
        if parameter.requires_grad:
            parameter.copy_(tensors[f"{PREFIX}{name}"])
