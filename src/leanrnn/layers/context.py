"""Torch's own recurrent layers, trained with our steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from leanrnn.layers.faster import faster
from leanrnn.layers.fused import stack
from leanrnn.layers.uncompiled import uncompiled

__all__ = ["quick"]

_MODES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN_TANH", "rnn_relu": "RNN_RELU"}
"""By the name of torch's operator."""


class quick(TorchFunctionMode):  # a context, as torch.no_grad is one
    """Inside, nn.GRU and nn.RNN, and wide nn.LSTM under autocast, train faster on a CPU, with the numbers they have. ::

        with leanrnn.layers.quick():
            loss = criterion(model(x), y)
        loss.backward()

    The modules stay what they are. Evaluation, other devices and packed sequences take torch's way as ever. Layers of
    :class:`leanrnn.layers.Recurrent` need no context.
    """

    @uncompiled
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An operator of torch is called."""
        mode = _MODES.get(getattr(func, "__name__", ""))
        found = None if mode is None or len(args) != 9 else _quick(mode, *args)
        return func(*args, **(kwargs or {})) if found is None else found


def _quick(
    mode: str, x: Tensor, start: Any, weights: Any, bias: bool, layers: int, dropout: float, training: bool, both: bool,
    batch_first: bool,
) -> tuple[Tensor, ...] | None:  # fmt: skip
    """What torch's operator answers to these arguments, or None where it is the faster one; of packed sequences, whose
    weights come later, too."""
    each, slots = 4 if bias else 2, layers * (2 if both else 1)
    if not isinstance(weights, list) or len(weights) != each * slots:
        return None
    data = x.transpose(0, 1) if batch_first else x
    parts = start if mode == "LSTM" else (start,)
    first = [part[:1] for part in parts]
    if not faster(mode, data, first, weights[:each], training) or any(len(part) != slots for part in parts):
        return None
    initial = list(zip(*(part.split(1) for part in parts), strict=True))
    grouped = [weights[i * each : (i + 1) * each] for i in range(slots)]
    output, last = stack(mode, data, None, initial, grouped, bias, dropout, training, both)
    states = [torch.cat(each) for each in zip(*last, strict=True)]
    return output.transpose(0, 1) if batch_first else output, *states
