"""One layer, one direction: the only way torch's fused recurrent operators, or our quick steps, are called here.

Given several widths at once, oneDNN returns wrong numbers without a word. So every call is for one layer and one
direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from leanrnn.layers.faster import faster, in_half
from leanrnn.layers.recurrent_steps import OPERATORS, quick_steps

__all__ = ["GATES", "backwards", "flatten", "one_layer", "reversal", "stack"]

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def one_layer(
    mode: str,
    data: Tensor,
    sizes: Tensor | None,
    state: tuple[Tensor, ...],
    weights: Sequence[Tensor],
    bias: bool,
    training: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Output and last state of one layer read forwards; ``sizes`` are the batch sizes of packed data."""
    if sizes is None and faster(mode, data, state, weights, training):
        return quick_steps(mode, data, state, weights, in_half())
    twins = len(weights) % 2 == 1 and state[0].size(-1) == state[1].size(-1)
    if twins:
        state, weights = _one_wider(state, weights)
    options = (list(weights), bias, 1, 0.0, training, False)
    start = state if mode == "LSTM" else state[0]
    if sizes is None:
        output, *last = OPERATORS[mode](data, start, *options, False)
    else:
        output, *last = OPERATORS[mode](data, sizes, start, *options)
    return output, (last[0], last[1][..., :-1]) if twins else tuple(last)


def stack(
    mode: str,
    data: Tensor,
    sizes: Tensor | None,
    initial: Sequence[tuple[Tensor, ...]],
    weights: Sequence[Sequence[Tensor]],
    bias: bool,
    dropout: float,
    training: bool,
    both: bool,
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """Output and last states of layers one after the other, each read forwards or in both directions; ``initial`` and
    ``weights`` are per layer and direction. Time-major, as inside torch, so that dropout draws the same mask."""
    directions = 2 if both else 1
    turn = reversal(sizes).to(data.device) if sizes is not None and both else None
    last = []
    for layer in range(len(weights) // directions):
        outputs = []
        for direction in range(directions):
            slot = layer * directions + direction
            source = data if direction == 0 else backwards(data, turn)
            output, state = one_layer(mode, source, sizes, initial[slot], weights[slot], bias, training)
            outputs.append(output if direction == 0 else backwards(output, turn))
            last.append(state)
        data = outputs[0] if directions == 1 else torch.cat(outputs, dim=-1)
        if dropout and (layer + 1) * directions < len(weights):
            data = F.dropout(data, dropout, training)
    return data, last


def _one_wider(state: tuple[Tensor, ...], weights: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Torch takes a projection for one only where h and c are of unequal width: c gets one more component, of zeros."""
    *gates, project = weights
    wide = [F.pad(w.view(4, -1, *w.shape[1:]), (0, 0) * (w.dim() - 1) + (0, 1)).flatten(0, 1) for w in gates]
    return (state[0], F.pad(state[1], (0, 1))), [*wide, F.pad(project, (0, 1))]


def backwards(data: Tensor, turn: Tensor | None) -> Tensor:
    """Time-major or, with ``turn`` from :func:`reversal`, packed data read from the end of every sequence."""
    return data.flip(0) if turn is None else data.index_select(0, turn)


def reversal(sizes: Tensor) -> Tensor:
    """Where each row of packed data comes from when every sequence is read backwards; its own inverse."""
    steps, batch = sizes.numel(), int(sizes[0])
    start = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)[:-1]])
    lengths = (sizes.unsqueeze(1) > torch.arange(batch)).sum(0)
    step = torch.repeat_interleave(torch.arange(steps), sizes)
    sequence = torch.arange(step.numel()) - start[step]
    return start[lengths[sequence] - 1 - step] + sequence


def flatten(mode: str, weights: Sequence[Tensor | None], projected: bool) -> None:
    """Lay the weights of one layer out in one block, which cuDNN asks for; elsewhere do nothing."""
    acceptable = cast(Callable[[Tensor], bool], torch.backends.cudnn.is_acceptable)
    found = [w for w in weights if w is not None and w.is_cuda and acceptable(w)]
    if len(found) != len(weights) or len({w.data_ptr() for w in found}) != len(found):
        return
    if len({w.dtype for w in found}) != 1 or not torch._use_cudnn_rnn_flatten_weight():
        return
    from torch.backends.cudnn import rnn

    with torch.cuda.device(found[0].device), torch.no_grad():
        torch._cudnn_rnn_flatten_weight(
            found,
            len(found),
            found[0].size(1),
            rnn.get_cudnn_mode(mode),  # type: ignore[no-untyped-call]
            found[1].size(0) // GATES[mode],
            found[1].size(1) if projected else 0,
            1,
            False,
            False,
        )
