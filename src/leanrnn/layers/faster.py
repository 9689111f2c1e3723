"""Where the steps of :mod:`leanrnn.layers.recurrent_steps` take the place of torch's operators: while training on a
processor, where they are faster."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

__all__ = ["faster", "in_half"]

FROM = {"GRU": 0, "RNN_TANH": 0, "RNN_RELU": 0}
"""The width from which they are (benchmarks/speed/recurrent.py). oneDNN's LSTM is as fast as its products let it."""
FROM_IN_HALF = {"LSTM": 384, "GRU": 0, "RNN_TANH": 128, "RNN_RELU": 128}
"""The same under autocast to bfloat16, where the way back of oneDNN's LSTM is slow."""


def faster(mode: str, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor], training: bool) -> bool:
    """Whether this layer takes our steps. Whoever looks into a model (to trace, to record, to transform) gets torch's
    operator, and so does a call that torch refuses."""
    if not (training and torch.is_grad_enabled() and len(weights) in (2, 4)) or _looked_into():
        return False
    autocast, width = torch.is_autocast_enabled("cpu"), weights[1].size(-1)
    if width < (FROM_IN_HALF if autocast else FROM).get(mode, width + 1):
        return False
    return (
        _precise(x, state, weights, autocast)
        and all(type(t) in (Tensor, nn.Parameter) and t.device.type == "cpu" for t in (x, *state, *weights))
        and any(t.requires_grad for t in (x, *state, *weights))
        and x.dim() == 3
        and x.numel() > 0
        and weights[0].size(1) == x.size(2)
        and all(s.shape == (1, x.size(1), width) for s in state)
    )


def in_half() -> bool:
    """Whether products are of bfloat16."""
    return torch.is_autocast_enabled("cpu")


def _precise(x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor], autocast: bool) -> bool:
    """Whether this is a precision that our steps know."""
    if not autocast:
        kinds = {t.dtype for t in (x, *state, *weights)}
        return len(kinds) == 1 and kinds <= {torch.float32, torch.float64}
    return (
        torch.get_autocast_dtype("cpu") == torch.bfloat16
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        and all(t.dtype in (torch.float32, torch.bfloat16) for t in (x, *state))
        and all(t.dtype == torch.float32 for t in weights)
    )


def _looked_into() -> bool:
    return bool(
        torch.compiler.is_compiling()  # first: what follows the compiler need not know
        or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )
