"""Where the steps of :mod:`leanrnn.layers.recurrent_steps` take the place of torch's operators: while training on a
processor, where they are faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from leanrnn.layers.recurrent_steps import quick_steps

__all__ = ["faster", "quick"]

_MODES = {"gru": "GRU", "rnn_tanh": "RNN_TANH", "rnn_relu": "RNN_RELU"}
"""By the name of torch's operator. An LSTM is not among them: oneDNN's is faster up to a width of 650."""
_PRECISIONS = (torch.float32, torch.float64)


def faster(mode: str, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor], training: bool) -> bool:
    """Whether this layer takes our steps. Whoever looks into a model (to trace, to record, to transform) gets torch's
    operator, and so does a call that torch refuses."""
    tensors = (x, *state, *weights)
    return (
        training
        and mode in _MODES.values()
        and torch.is_grad_enabled()
        and len(weights) in (2, 4)
        and x.dtype in _PRECISIONS
        and all(type(t) in (Tensor, nn.Parameter) and t.device.type == "cpu" and t.dtype == x.dtype for t in tensors)
        and any(t.requires_grad for t in tensors)
        and x.dim() == 3
        and x.numel() > 0
        and all(s.shape == (1, x.size(1), weights[1].size(1)) for s in state)
        and weights[0].size(1) == x.size(2)
        and not _looked_into()
    )


def _looked_into() -> bool:
    return bool(
        torch.is_autocast_enabled("cpu")
        or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        or torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


class quick(TorchFunctionMode):  # a context, as torch.no_grad is one
    """Inside, nn.GRU and nn.RNN of one layer and one direction train faster on a processor, with the same numbers. ::

        with leanrnn.layers.quick():
            loss = criterion(model(x), y)
        loss.backward()

    The modules stay what they are. Layers of :class:`leanrnn.layers.Recurrent` need no context.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An operator of torch is called."""
        mode = _MODES.get(getattr(func, "__name__", ""))
        if mode is None or len(args) != 9 or not isinstance(args[2], list):
            return func(*args, **(kwargs or {}))
        x, start, weights, _, layers, _, training, both, batch_first = args
        data = x.transpose(0, 1) if batch_first and x.dim() == 3 else x
        if layers > 1 or both or not faster(mode, data, (start,), weights, training):
            return func(*args, **(kwargs or {}))
        output, last = quick_steps(mode, data, (start,), weights)
        return output.transpose(0, 1) if batch_first else output, *last
