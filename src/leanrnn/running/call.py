"""Call a model on an example, and take apart what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from leanrnn.layers import States

__all__ = ["Called", "arguments", "call", "leaves", "positional"]


@runtime_checkable
class Called(Protocol):
    """An example that knows how models are called on it."""

    def called(self, model: nn.Module) -> Any:
        """What is returned."""


def call(model: nn.Module, example: Any) -> Any:
    """``model`` on ``example``: a tensor, a tuple of positional inputs or a mapping of keyword inputs."""
    if isinstance(example, Called):
        return example.called(model)
    args, kwargs = arguments(example)
    return model(*args, **kwargs)


def arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs of a call. ::

    args, kwargs = arguments({"words": words, "lengths": lengths})
    """
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example) if positional(example) else (example,)), {}


def leaves(value: Any, states: Callable[[States], list[Tensor]] = list) -> list[Tensor]:
    """All tensors inside a value, in order; ``states`` takes states of unequal widths apart."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, States):
        return states(value)
    if isinstance(value, PackedSequence):
        return [value.data]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        value = list(value.values())
    elif not isinstance(value, list | tuple | set):
        parts = pytree.tree_leaves(value)
        value = [] if len(parts) == 1 and parts[0] is value else parts
    return [leaf for item in value for leaf in leaves(item, states)]


def positional(example: Any) -> bool:
    """A plain tuple is a list of inputs; a named one, such as a packed sequence, is one input."""
    return isinstance(example, tuple) and not hasattr(example, "_fields") and not isinstance(example, States)
