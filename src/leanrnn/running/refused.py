"""Why a model did not run on an example, and what to do about it, in words."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from torch import nn
from torch.utils import _pytree as pytree

from leanrnn.running.call import Called, arguments, leaves
from leanrnn.running.user_line import user_place

__all__ = ["refused"]

KINDS = "Give a tensor, a tuple of positional inputs, or a dict of keyword inputs."


def refused(model: nn.Module, example: Any, error: Exception) -> str:
    """Two sentences: what the model's forward raised and where, and what to do. ::

    raise DiscoveryError(refused(model, example, error)) from error
    """
    place = user_place(error)
    where = f" at {place.partition(', in ')[0]}" if place else ""
    return (
        f"the model's forward raised {type(error).__name__}{where}: {str(error).rstrip('.')}. {_advice(model, example)}"
    )


def _advice(model: nn.Module, example: Any) -> str:
    """The mistakes that can be told from the example; to call the model, for all others."""
    if example is None:
        return f"The example is None. {KINDS}"
    if isinstance(example, Called):
        return "Call the model with this example first."
    if any(isinstance(item, np.ndarray) for item in pytree.tree_leaves(example)):
        return "There is a NumPy array in the example. Give a tensor: torch.from_numpy(array)."
    args, kwargs = arguments(example)
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        given = ", ".join(kwargs) if kwargs else f"{len(args)} positional input{'s' if len(args) != 1 else ''}"
        return f"The example gives {given or 'nothing'}, and forward takes {signature}."
    if not leaves(example):
        return f"There is no tensor in the example, a {type(example).__name__}. {KINDS}"
    if isinstance(example, list):
        return "The example is a list, which is one input. Give a tuple for several."
    return "Call the model with this example first."
