"""What a model holds outside of its parameters and buffers: numbers, and tensors such as the state of the last call."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from leanrnn.groups.data import Place

__all__ = ["attribute_tensors", "get_attribute", "leaves_of", "set_attribute"]

_OWN = frozenset(vars(nn.Module()))


def leaves_of(module: nn.Module) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Whatever stands in the attributes of a module itself, also in lists, mappings and plain objects in them."""
    if isinstance(module, torch.jit.ScriptModule):  # what Python holds of a program are handles
        return
    for name, value in vars(module).items():
        if name not in _OWN:
            yield from (((name, *path), leaf) for path, leaf in _inside(value, 2))


def _inside(value: Any, depth: int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Tensor | nn.Module | str | type) or callable(value):
        pass
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    elif isinstance(value, dict):
        items = [(key, item) for key, item in value.items() if isinstance(key, str | int)]
    elif hasattr(value, "__dict__"):
        items = list(vars(value).items())
    if not items:
        yield (), value
    elif depth:
        for key, item in items:
            yield from (((key, *path), leaf) for path, leaf in _inside(item, depth - 1))


def attribute_tensors(model: nn.Module) -> dict[Place, Tensor]:
    """Tensors with numbers that modules hold besides those they registered."""
    return {
        (name, path): leaf
        for name, module in model.named_modules()
        for path, leaf in leaves_of(module)
        if isinstance(leaf, Tensor) and not isinstance(leaf, nn.Parameter) and leaf.dim() and leaf.numel()
        if leaf.is_floating_point() or leaf.is_complex()
    }


def get_attribute(model: nn.Module, module: str, path: Sequence[str | int]) -> Any:
    """What stands at a place, such as ``hidden_size`` or an entry of a list of sizes."""
    found: Any = model.get_submodule(module)
    for key in path:
        found = cast(Any, found)[key] if isinstance(found, list | tuple | dict) else getattr(found, str(key))
    return found


def set_attribute(model: nn.Module, module: str, path: Sequence[str | int], value: Any) -> None:
    """Put something else there; a list or an object it stands in is copied, as others may share it."""
    owner = model.get_submodule(module)
    setattr(owner, str(path[0]), _with(getattr(owner, str(path[0])), path[1:], value))


def _with(container: Any, path: Sequence[str | int], value: Any) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(container, tuple):
        items = list(container)
        items[int(key)] = _with(items[int(key)], rest, value)
        return type(container)(*items) if hasattr(container, "_fields") else type(container)(items)
    found = copy.copy(container)
    if isinstance(found, list | dict):
        cast(Any, found)[key] = _with(cast(Any, found)[key], rest, value)
    else:
        # Also a frozen dataclass, of which this is a fresh copy.
        object.__setattr__(found, str(key), _with(getattr(found, str(key)), rest, value))
    return found
