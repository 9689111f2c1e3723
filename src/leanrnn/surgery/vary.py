"""Other examples than the user's: longer ones, to prove at other lengths and batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

__all__ = ["Longer", "longer_examples", "mapped", "nudged"]

Longer = Callable[[int], Any]
"""The example so many times as long."""


def longer_examples(example: Any) -> Iterator[list[Longer]]:
    """For the first and the second axis: ways to make the example longer, the first that the model takes is the one.

    First the axis of the first tensor, and all that are as long in the others: lengths, masks and states have their
    batch elsewhere, and have to fit; torch packs a batch by too few lengths without a word. Then every tensor along its
    own axis of that number. ::

        for ways in longer_examples((x, lengths)):
            twice = ways[0](2)
    """
    flat, _ = pytree.tree_flatten(example, is_leaf=lambda item: isinstance(item, PackedSequence))
    tensors = [item for item in flat if isinstance(item, Tensor)]
    if any(isinstance(item, PackedSequence) for item in flat):
        return
    for axis in (0, 1):
        first = next((t for t in tensors if t.dim() > max(axis, 1)), None)
        found: list[Longer] = []
        if first is not None and len(tensors) > 1:
            found.append(functools.partial(_longer, example, functools.partial(_fitting, axis, first)))
        yield [*found, functools.partial(_longer, example, functools.partial(_along, axis))]


def _longer(example: Any, way: Callable[[int, Tensor], Tensor], times: int) -> Any:
    return mapped(functools.partial(way, times), example)


def nudged(example: Any) -> Any:
    """The example with its floating point numbers changed in their last places."""
    return mapped(lambda t: t * (1 + 2 * torch.finfo(t.dtype).eps) if t.is_floating_point() else t, example)


def mapped(change: Callable[[Tensor], Tensor], example: Any) -> Any:
    """The example with ``change`` made to each of its tensors."""
    return pytree.tree_map(lambda item: change(item) if isinstance(item, Tensor) else item, example)


def _along(axis: int, times: int, tensor: Tensor) -> Tensor:
    return torch.cat([tensor] * times, axis) if tensor.dim() > axis else tensor


def _fitting(axis: int, first: Tensor, times: int, tensor: Tensor) -> Tensor:
    if tensor is first:
        return _along(axis, times, tensor)
    for a in [a for a in range(tensor.dim()) if tensor.size(a) == first.size(axis)]:
        tensor = _along(a, times, tensor)
    return tensor
