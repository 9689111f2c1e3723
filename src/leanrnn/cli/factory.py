"""A user's model on the command line: ``package.module:function`` or ``path/to/file.py:function``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from leanrnn.errors import LeanRNNError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FactoryError", "build", "find", "inputs"]


class FactoryError(LeanRNNError):
    """The text given on the command line does not lead to a function that returns ``(model, example)``."""


def build(text: str, example: str | None = None) -> tuple[nn.Module, Any]:
    """Call the factory that ``text`` names and return its model and example, or the one that ``example`` describes.

    >>> model, example = build("my_project/models.py:small_tagger")
    >>> model, example = build("my_project/models.py:Tagger", "1,35:int64")
    """
    from torch import nn

    made = _called(text)
    if example is not None:
        model = made[0] if isinstance(made, tuple) and made else made
        if not isinstance(model, nn.Module):
            raise FactoryError(f"{text} returned {_describe(made)}. Return a model from it.")
        return model, inputs(example)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise FactoryError(
            f"{text} returned {_describe(made)}. Return a pair (model, example) from it, or describe the example "
            'with --example "1,35:int64".'
        )
    return made


def inputs(text: str) -> Any:
    """What ``text`` describes: ``1,35:int64`` a tensor of that shape and type, several of them with ``;`` between, or
    a function that returns any inputs.

    >>> inputs("1,35:int64;1:float32")
    """
    import torch

    if not text[:1].isdigit():
        return _called(text)
    found = []
    for part in text.split(";"):
        shape, _, kind = part.strip().partition(":")
        dtype = getattr(torch, kind or "float32", None)
        try:
            sizes = [int(size) for size in shape.split(",")]
        except ValueError:
            sizes = []
        if not sizes or not isinstance(dtype, torch.dtype):
            raise FactoryError(
                f"{part.strip()!r} describes no tensor. Write its shape and type like 1,35:int64, "
                "or name a function that returns the inputs."
            )
        # Zeros are words of any vocabulary; other numbers should not be all alike.
        found.append(torch.randn(sizes, dtype=dtype) if dtype.is_floating_point else torch.zeros(sizes, dtype=dtype))
    return tuple(found)


def _called(text: str) -> Any:
    """What the function gives, which is called without arguments."""
    function = find(text)
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise FactoryError(f"{text} cannot be called without arguments ({error}). Name a function that can.") from error
    except ValueError:  # one written in C, whose arguments nobody knows
        pass
    return function()


def find(text: str) -> Callable[[], Any]:
    """The function that ``text`` names, its module imported from the current folder or the path."""
    place, colon, name = text.rpartition(":")
    if not (colon and place.strip(".") and name.isidentifier()):
        raise FactoryError(
            f"{text!r} does not name a function. Write package.module:function or path/to/file.py:function."
        )
    module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    if not callable(function := getattr(module, name, None)):
        raise FactoryError(f"{place} has no function {name!r}. {_functions(module, name)}")
    return function  # type: ignore[no-any-return]  # whatever the user wrote


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FactoryError(f"there is no file {path}. Give the path from the folder you are in.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FactoryError(f"{path} cannot be imported. Give a Python source file.")
    sys.path.insert(0, str(path.resolve().parent))
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise FactoryError(
            f"there is no module {error.name!r}. Run from the folder that contains it, or give the path of the file."
        ) from error


def _functions(module: ModuleType, name: str) -> str:
    own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__]
    near = difflib.get_close_matches(name, own, 1)
    return f"{f'Did you mean {near[0]}? ' if near else ''}Its functions are {', '.join(own) or 'none'}."


def _describe(made: object) -> str:
    if isinstance(made, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in made) or 'nothing'}"
    return "nothing" if made is None else f"a {type(made).__name__}"
