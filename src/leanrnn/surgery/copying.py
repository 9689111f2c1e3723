"""Copies of models and examples, and the line of the user's code an exception came from."""

from __future__ import annotations

import copy
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leanrnn.errors import UnsupportedModelError

__all__ = ["copy_example", "copy_model", "user_line"]

_OURS = str(Path(__file__).parents[1])
_TORCH = str(Path(torch.__file__).parent)


def copy_model(model: nn.Module) -> nn.Module:
    """A deep copy, also of a model that holds results of its last run (a cached state, a computed weight)."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            _detach_results(value, memo, 4)
    try:
        return copy.deepcopy(model, dict(memo))
    except Exception:  # any attribute may refuse, each in its own way
        _share_what_refuses(model, memo)
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModelError(
            f"this model cannot be copied ({error}). Keep what cannot be copied outside of the modules."
        ) from error


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


def user_line(error: BaseException) -> str:
    """``file:line`` of the innermost frame outside torch and leanrnn, or "an unknown line"."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not f.filename.startswith((_OURS, _TORCH, "<"))]
    return f"{users[-1].filename}:{users[-1].lineno}" if users else "an unknown line"
