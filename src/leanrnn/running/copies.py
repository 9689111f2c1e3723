"""Copies of models and examples."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

from torch import Tensor, nn

from leanrnn.errors import UnsupportedModelError

__all__ = ["copy_example", "copy_model"]


def copy_model(model: nn.Module) -> nn.Module:
    """A deep copy, also of a model that holds results of its last call (a cached state, a computed weight), or whose
    modules got a new ``forward`` that holds on to them."""
    memo: dict[int, Any] = {}
    functions: list[tuple[FunctionType, FunctionType]] = []
    own = {id(module) for module in model.modules()}
    for name, module in model.named_modules():
        _check_forward(name, module, own)
        for value in vars(module).values():
            _detach_results(value, memo, 4)
            if isinstance(value, FunctionType) and value.__closure__:
                functions.append((value, _same_code(value)))
                memo[id(value)] = functions[-1][1]
    copied = _deep_copy(model, memo)
    for old, new in functions:
        for cell, empty in zip(old.__closure__ or (), new.__closure__ or (), strict=True):
            empty.cell_contents = _translated(cell.cell_contents, memo)
    return copied


def _deep_copy(model: nn.Module, memo: dict[int, Any]) -> nn.Module:
    first = dict(memo)
    try:
        copied = copy.deepcopy(model, first)
        memo.update(first)
        return copied
    except Exception:  # any attribute may refuse, each in its own way
        _share_what_refuses(model, memo)
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModelError(
            f"this model cannot be copied ({error}). Keep what cannot be copied outside of the modules."
        ) from error


def _check_forward(name: str, module: nn.Module, own: set[int]) -> None:
    """A copied function still runs the module it was made for: such a copy is not the model it seems to be."""
    forward = vars(module).get("forward")
    inside = [cell.cell_contents for cell in getattr(forward, "__closure__", None) or ()] + [forward]
    inside += [item.__self__ for item in inside if isinstance(item, MethodType)]
    if any(isinstance(item, nn.Module) and id(item) not in own for item in inside):
        raise UnsupportedModelError(
            f"the forward of {name or 'the model'} is a function that runs a module outside of this model, as after "
            "copy.deepcopy of a module whose forward was replaced. Use the original model: shrink makes its own copy."
        )


def _same_code(function: FunctionType) -> FunctionType:
    """The same function with what it holds on to left open."""
    cells = tuple(CellType() for _ in function.__closure__ or ())
    new = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__dict__.update(function.__dict__)
    return new


def _translated(value: Any, memo: Mapping[int, Any]) -> Any:
    """What a function holds on to, with the copies in place of the model's own modules."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _translated(value.__self__, memo))
    if type(value) in (list, tuple):
        return type(value)(_translated(item, memo) for item in value)
    return {k: _translated(v, memo) for k, v in value.items()} if type(value) is dict else value


def _share_what_refuses(model: nn.Module, memo: dict[int, Any]) -> None:
    """Attributes that cannot be copied, such as a logger or an open file, are the copy's as they are."""
    for module in model.modules():
        for name, value in vars(module).items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:
                memo[id(value)] = value


def _detach_results(value: Any, memo: dict[int, Any], depth: int) -> None:
    """Note a copy for tensors that deepcopy refuses, those that an operator with gradients made."""
    if isinstance(value, Tensor):
        if not value.is_leaf:
            memo[id(value)] = value.detach().clone()
    elif depth and isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _detach_results(item, memo, depth - 1)


def copy_example(value: Any) -> Any:
    """An example with all tensors copied, so that a forward that writes into its input does no harm."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) is dict:
        return {key: copy_example(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(copy_example(item) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(copy_example(item) for item in value)
    try:
        return copy.deepcopy(value)
    except (RuntimeError, TypeError):  # what cannot be copied is passed on as it is
        return value
