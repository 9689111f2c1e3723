"""What goes into a model and comes out of it, as tensors with names: of all that stands around them a file has none."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from leanrnn.layers import States
from leanrnn.running.call import arguments, call

__all__ = ["Flat", "input_names", "is_plain", "output_names", "packed_in", "tensors_of", "unused", "with_tensors"]

Path = tuple[str | int, ...]
"""Where a tensor stands: keys, names of fields, positions."""


class Flat(nn.Module):
    """A model that takes and returns tensors one after the other; all else that its example holds stays as it is. ::

    Flat(model, {"frames": frames, "scale": 2.0})(frames)
    """

    def __init__(self, model: nn.Module, example: Any) -> None:
        super().__init__()
        self.model, self.example = model, [example]  # in a list: what is in it is no part of the model
        self.train(model.training)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """What the model returns on the example with these tensors in it."""
        return tuple(tensors_of(call(self.model, with_tensors(self.example[0], tensors))))


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors inside, in order; numbers, words and None are left out."""
    return [tensor for _, tensor in _found(value)]


def packed_in(value: Any) -> bool:
    """Whether a packed sequence is inside, which is more than its tensor."""
    return isinstance(value, PackedSequence) or any(packed_in(part) for _, part in _parts(value))


def is_plain(value: Any) -> bool:
    """Whether all containers inside are such as a program of torch can be called with."""
    own = type(value) in (tuple, list, dict) or isinstance(value, States) or not _parts(value)
    return own and all(is_plain(part) for _, part in _parts(value))


def with_tensors(value: Any, tensors: Iterable[Tensor]) -> Any:
    """The same with other tensors in it, in the order of :func:`tensors_of`."""
    return _rebuilt(value, iter(tensors))


def input_names(model: nn.Module, example: Any) -> list[str]:
    """A name for every tensor of an example: ``frames``, ``state_0``, ``batch_words``."""
    args, kwargs = arguments(example)
    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    kinds = {name: parameter.kind for name, parameter in bound.signature.parameters.items()}
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        named |= value if kinds[name] is inspect.Parameter.VAR_KEYWORD else {name: value}
    # In the order of the example, which may give its keywords in another one than the forward has them.
    order = [key for key in kwargs if key in named] if kwargs else list(named)
    return _distinct(("_".join(map(str, (key, *path))) for key in order for path, _ in _found(named[key])), ())


def output_names(result: Any, taken: Iterable[str]) -> list[str]:
    """A name for every tensor of a result: its key or field, ``output_1`` by number where there is none. One that an
    input has (``taken``) gets ``_out`` behind it."""
    paths, taken = [path for path, _ in _found(result)], list(taken)
    if len(paths) == 1 and not any(isinstance(part, str) for part in paths[0]):
        return _distinct(["output"], taken)
    if not any(isinstance(part, str) for path in paths for part in path):
        return _distinct([f"output_{i}" for i in range(len(paths))], taken)
    names = ["_".join(map(str, path if isinstance(path[0], str) else ("output", *path))) for path in paths]
    return _distinct([f"{name}_out" if name in taken else name for name in names], taken)


def unused(word: str, taken: Iterable[str]) -> str:
    """``word``, or with a number behind it if there is one of that name."""
    names, number = set(taken), 2
    if word not in names:
        return word
    while f"{word}_{number}" in names:
        number += 1
    return f"{word}_{number}"


def _distinct(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    used, found = set(taken), list[str]()
    for name in names:
        found.append(unused(name, used))
        used.add(found[-1])
    return found


def _found(value: Any) -> Iterator[tuple[Path, Tensor]]:
    if isinstance(value, Tensor):
        yield (), value
    for key, part in _parts(value):
        yield from (((key, *path), tensor) for path, tensor in _found(part))


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    """What stands directly in a container; nothing in what is none."""
    if isinstance(value, Tensor | PackedSequence | nn.Module | type | str | FunctionType) or value is None:
        return []
    if isinstance(value, Mapping):
        return [(key if isinstance(key, str) else str(key), part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple | States):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    # An object of the user's own that carries tensors, such as a batch of a data loader.
    return [(name, part) for name, part in getattr(value, "__dict__", {}).items() if isinstance(part, Tensor)]


def _rebuilt(value: Any, tensors: Iterator[Tensor]) -> Any:
    if isinstance(value, Tensor):
        return next(tensors)
    if not any(True for _ in _found(value)):
        return value
    parts = [_rebuilt(part, tensors) for _, part in _parts(value)]
    if isinstance(value, Mapping):
        return _refilled(value, dict(zip(value, parts, strict=True)))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*parts)
    if isinstance(value, list | tuple | States):
        return type(value)(parts)
    new = copy.copy(value)
    for (name, _), part in zip(_parts(value), parts, strict=True):
        object.__setattr__(new, str(name), part)
    return new


def _refilled(value: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """A mapping of the same kind with other values."""
    if type(value) is dict:
        return parts
    new = copy.copy(value)
    try:
        for key, part in parts.items():
            new[key] = part  # type: ignore[index]
    except TypeError:  # of one that cannot be written to
        return type(value)(parts)  # type: ignore[call-arg]
    return new
