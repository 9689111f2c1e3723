"""Layers that ``torch.compile`` leaves as they are, as it does with torch's own recurrent layers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

__all__ = ["uncompiled"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def uncompiled(forward: Callable[_P, _R]) -> Callable[_P, _R]:
    """``forward``, which the compiler calls and does not look into.

    It breaks its graph at every nn.LSTM, nn.GRU and nn.RNN, and skips their code because it stands in torch. That of a
    class derived from them it would read, down to operators of which it cannot take the gradient.
    """
    skipped: list[Callable[_P, _R]] = []

    @functools.wraps(forward)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        # Without the compiler there is nothing to skip, and importing it takes as long as importing the rest of torch.
        # An export has to look inside: there nobody asks for gradients.
        if "torch._dynamo" not in sys.modules or torch.compiler.is_exporting():
            return forward(*args, **kwargs)
        if not skipped:
            skipped.append(torch.compiler.disable(forward))  # type: ignore[no-untyped-call]
        return skipped[0](*args, **kwargs)

    return call
