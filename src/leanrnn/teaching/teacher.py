"""A model that is only asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from leanrnn.running.copies import copy_model

__all__ = ["Teacher"]


class Teacher:
    """A frozen copy of a model, as a function: evaluation mode, no gradients, no part of the model that learns. ::

        teacher = leanrnn.Teacher(model)  # before the first component goes
        for x, y in loader:
            scores = model(x)
            loss = leanrnn.distil(scores, teacher(x), cross_entropy(scores, y))

    Give it the trained dense model, an average of its weights, or any function of the inputs: several models whose
    answers are averaged, another architecture, a model behind a network. With ``copy=False`` the model itself is used,
    and put into evaluation mode; it must not be the one that is trained.
    """

    def __init__(self, model: nn.Module | Callable[..., Any], *, copy: bool = True) -> None:
        if isinstance(model, nn.Module):
            # A copy, as components will be cut out of the model that learns.
            model = (copy_model(model) if copy else model).eval().requires_grad_(False)
        self.model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model says; of recurrent models with their state, which the caller hands on as usual."""
        with torch.no_grad():
            return self.model(*args, **kwargs)
