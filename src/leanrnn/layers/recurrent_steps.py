"""The steps of an LSTM, a GRU or an RNN with a backward pass of their own (benchmarks/speed/recurrent.py).

Left to autograd, every step of a GRU or an RNN adds a gradient as large as the weights to the sum of those before it,
and the LSTM of oneDNN is slow on its way back. Here only the product from state to state and what depends on it stay in
the loop: the products of inputs, the derivatives of gates and the gradients of weights are of all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import _VF, Tensor

from leanrnn.layers.recurrent_loops import WAYS, Adding, Kept

__all__ = ["OPERATORS", "quick_steps"]

OPERATORS = cast(
    dict[str, Callable[..., Any]],
    {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu},
)
"""Torch's own."""


def quick_steps(
    mode: str, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor], half: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output (time, batch, width) of one layer and its last state, the numbers of torch's operator.

    ``state`` is (h,) or (h, c), each (1, batch, width); ``weights`` are in torch's order, with biases or without. With
    ``half``, products are of bfloat16, and what is returned where torch's is under autocast; the rest is of float32.
    """
    biases = weights[2:] if len(weights) > 2 else (None, None)
    with torch.autocast("cpu", enabled=False):
        output, *last = _Steps.apply(mode, half, x, *weights[:2], *biases, *state)  # type: ignore[no-untyped-call]
    return output, tuple(last)


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mode: str, half: bool, *given: Any) -> tuple[Tensor, ...]:
        x, w_ih, w_hh, b_ih, b_hh, *s = given
        there, _ = WAYS[mode]
        data, into = (each.bfloat16() if half else each for each in (x, w_ih))
        states = w_hh.new_empty(len(x) + 1, x.size(1), w_hh.size(1))
        states[0] = s[0][0]
        bias = _bias(mode, b_ih, b_hh)
        gates = F.linear(data, into).float().add_(0 if bias is None else bias) if half else F.linear(data, into, bias)
        kept = there(gates, states, _adding(w_hh, len(x), x.size(1), half), b_hh, s)
        ctx.mode, ctx.half = mode, half
        ctx.save_for_backward(*given, data, into, *kept)
        # Copies: whoever gets them may change them in place, as with torch's own.
        found = [kept.states[1:], kept.states[-1:], *([kept.more[-1:]] if mode == "LSTM" else [])]
        # Under autocast torch's GRU alone returns what it was given.
        return tuple(each.bfloat16() if half and mode != "GRU" else each.clone() for each in found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *last: Tensor) -> tuple[Tensor | None, ...]:
        needs = ctx.needs_input_grad[2:]
        *given, data, into, states, gates, more = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate what this gives
            return None, None, *_differentiable(ctx.mode, ctx.half, needs, given, grad, last)
        (_, back), kept, w_hh = WAYS[ctx.mode], Kept(states, gates, more), given[2]
        towards = torch.cat([torch.zeros_like(grad[:1]), grad]).to(w_hh.dtype)
        towards[-1] += last[0][0]
        add = _adding(w_hh.t(), len(grad), grad.size(1), ctx.half)
        of_input, of_state, start = back(kept, towards, [each.to(w_hh.dtype) for each in last], add, any(needs[5:]))
        flat, by_state = of_input.flatten(0, 1), of_state.flatten(0, 1)
        flat_, by_state_ = (each.to(data.dtype) for each in (flat, by_state))
        found = (
            (flat_ @ into).view_as(data) if needs[0] else None,
            flat_.t() @ data.reshape(len(flat), -1) if needs[1] else None,
            by_state_.t() @ states[:-1].flatten(0, 1).to(data.dtype) if needs[2] else None,
            flat.sum(0) if needs[3] else None,
            by_state.sum(0) if needs[4] else None,
            *(each.unsqueeze(0) if need else None for each, need in zip(start, needs[5:], strict=True)),
        )
        return None, None, *(None if f is None else f.to(g.dtype) for f, g in zip(found, given, strict=True))


def _bias(mode: str, b_ih: Tensor | None, b_hh: Tensor | None) -> Tensor | None:
    """What both add before a function; of a GRU's candidate the second goes through a gate first."""
    if b_ih is None or b_hh is None:
        return None
    if mode != "GRU":
        return b_ih + b_hh
    two = len(b_hh) // 3 * 2
    return torch.cat([b_ih[:two] + b_hh[:two], b_ih[two:]])


def _adding(weight: Tensor, steps: int, batch: int, half: bool) -> Adding:
    """A function that adds to its first argument the product of the second with the weight turned."""
    if half:
        product = torch.ops.mkldnn._linear_pointwise
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), batch)
        return lambda sum_, a: sum_.add_(product(a.bfloat16(), packed, None, "none", [], ""))
    # From the right as products want it; a copy pays after a few of them.
    turned = weight.t().contiguous() if steps > 8 else weight.t()
    return lambda sum_, a: sum_.addmm_(a, turned)


def _differentiable(
    mode: str,
    half: bool,
    needs: Sequence[bool],
    given: Sequence[Tensor | None],
    grad: Tensor,
    last: Sequence[Tensor],
) -> list[Tensor | None]:
    """The same gradients by torch's operator, which can be differentiated again."""
    x, *rest = given
    weights, s = [each for each in rest[:4] if each is not None], rest[4:]
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # its LSTM cannot be
    try:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            start = s if mode == "LSTM" else s[0]
            found = OPERATORS[mode](x, start, weights, len(weights) > 2, 1, 0.0, True, False, False)
        by = [each for each, need in zip(given, needs, strict=True) if need]
        gradients = iter(torch.autograd.grad(found, cast(Any, by), (grad, *last), create_graph=True))
    finally:
        torch._C._set_mkldnn_enabled(before)
    return [next(gradients) if need else None for need in needs]
