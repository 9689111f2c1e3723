"""The steps of an LSTM, a GRU or an RNN with a backward pass of their own (benchmarks/speed/recurrent.py).

Left to autograd, every step of a GRU or an RNN adds a gradient as large as the weights to the sum of those before it,
and the LSTM of oneDNN is slow on its way back. Here only the product from state to state and what depends on it stay in
the loop: the products of inputs, the derivatives of gates and the gradients of weights are of all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import _VF, Tensor

__all__ = ["OPERATORS", "quick_steps"]

OPERATORS = cast(
    dict[str, Callable[..., Any]],
    {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu},
)
"""Torch's own."""


def quick_steps(
    mode: str, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output (time, batch, width) of one layer and its last state, the numbers of torch's operator.

    ``state`` is (h,) or (h, c), each (1, batch, width); ``weights`` are in torch's order, with biases or without.
    """
    biases = weights[2:] if len(weights) > 2 else (None, None)
    output, *last = _Steps.apply(mode, x, *weights[:2], *biases, *state)  # type: ignore[no-untyped-call]
    return output, tuple(last)


class Kept(NamedTuple):
    """What the way back needs of the way there. Each has an axis for time, then batch, then width."""

    states: Tensor
    """h before every step, and after the last one."""
    gates: Tensor
    """After their functions; of a GRU the last third is what the state adds to the candidate. None of an RNN."""
    more: Tensor
    """c before every step and after the last one; of a GRU the candidate."""


class Gradients(NamedTuple):
    """By what the products of input and of state add to gates, and by the state at the start."""

    of_input: Tensor
    of_state: Tensor
    start: list[Tensor]


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mode: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, *s: Tensor
    ) -> tuple[Tensor, ...]:
        there, _ = _WAYS[mode]
        (steps, batch), width = x.shape[:2], w_hh.size(1)
        states = x.new_empty(steps + 1, batch, width)
        states[0] = s[0][0]
        kept = there(F.linear(x, w_ih, _bias(mode, b_ih, b_hh)), states, w_hh, b_hh, s)
        ctx.mode = mode
        ctx.save_for_backward(x, w_ih, w_hh, b_ih, b_hh, *s, *kept)
        # Copies: whoever gets them may change them in place, as with torch's own.
        last = [kept.states[-1:].clone(), *([kept.more[-1:].clone()] if mode == "LSTM" else [])]
        return kept.states[1:].clone(), *last

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *last: Tensor) -> tuple[Tensor | None, ...]:
        needs = ctx.needs_input_grad[1:]
        x, w_ih, w_hh, b_ih, b_hh, *rest = ctx.saved_tensors
        s, kept = rest[:-3], Kept(*rest[-3:])
        if torch.is_grad_enabled():  # somebody will differentiate what this gives
            return None, *_differentiable(ctx.mode, needs, (x, w_ih, w_hh, b_ih, b_hh, *s), grad, last)
        _, back = _WAYS[ctx.mode]
        towards = torch.cat([torch.zeros_like(grad[:1]), grad])
        towards[-1] += last[0][0]
        of_input, of_state, start = back(kept, towards, last, w_hh, any(needs[5:]))
        flat, by_state = of_input.flatten(0, 1), of_state.flatten(0, 1)
        return (
            None,
            (flat @ w_ih).view_as(x) if needs[0] else None,
            flat.t() @ x.reshape(len(flat), -1) if needs[1] else None,
            by_state.t() @ kept.states[:-1].flatten(0, 1) if needs[2] else None,
            flat.sum(0) if needs[3] else None,
            by_state.sum(0) if needs[4] else None,
            *(each.unsqueeze(0) if need else None for each, need in zip(start, needs[5:], strict=True)),
        )


def _bias(mode: str, b_ih: Tensor | None, b_hh: Tensor | None) -> Tensor | None:
    """What both add before a function; of a GRU's candidate the second goes through a gate first."""
    if b_ih is None or b_hh is None:
        return None
    if mode != "GRU":
        return b_ih + b_hh
    two = len(b_hh) // 3 * 2
    return torch.cat([b_ih[:two] + b_hh[:two], b_ih[two:]])


def _differentiable(
    mode: str, needs: Sequence[bool], given: tuple[Tensor | None, ...], grad: Tensor, last: Sequence[Tensor]
) -> list[Tensor | None]:
    """The same gradients by torch's operator, which can be differentiated again."""
    x, *rest = given
    weights, s = [each for each in rest[:4] if each is not None], rest[4:]
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # its LSTM cannot be
    try:
        found = OPERATORS[mode](x, s if mode == "LSTM" else s[0], weights, len(weights) > 2, 1, 0.0, True, False, False)
        by = [each for each, need in zip(given, needs, strict=True) if need]
        gradients = iter(torch.autograd.grad(found, cast(Any, by), (grad, *last), create_graph=True))
    finally:
        torch._C._set_mkldnn_enabled(before)
    return [next(gradients) if need else None for need in needs]


def _lstm_there(gates: Tensor, states: Tensor, w_hh: Tensor, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    cells, width, turned = torch.empty_like(states), w_hh.size(1), w_hh.t()
    cells[0] = s[1][0]
    i, f, g, o = (block.unbind() for block in gates.chunk(4, -1))
    i_f = gates[..., : 2 * width].unbind()
    h, c = states.unbind(), cells.unbind()
    for t, now in enumerate(gates.unbind()):
        now.addmm_(h[t], turned)
        i_f[t].sigmoid_()
        g[t].tanh_()
        o[t].sigmoid_()
        torch.mul(f[t], c[t], out=c[t + 1]).addcmul_(i[t], g[t])
        torch.tanh(c[t + 1], out=h[t + 1]).mul_(o[t])
    return Kept(states, gates, cells)


def _lstm_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], w_hh: Tensor, start: bool) -> Gradients:
    i, f, g, o = kept.gates.chunk(4, -1)
    out = kept.more[1:].tanh()
    # Derivatives: of c by h, of what gates read by c, and for the output gate by h.
    by_h = (1 - out * out).mul_(o)
    found = kept.gates * (1 - kept.gates)
    by_i, by_f, by_g, by_o = found.chunk(4, -1)
    by_i.mul_(g)
    by_f.mul_(kept.more[:-1])
    torch.mul(g, g, out=by_g).neg_().add_(1).mul_(i)
    by_o.mul_(out)
    steps, batch, width = f.shape
    by_c = found.view(steps, batch, 4, width)[:, :, :3].unbind()
    dc = last[1][0].clone()
    beside = dc.unsqueeze(1)
    dh, all_o, all_f, all_h, each = towards.unbind(), by_o.unbind(), f.unbind(), by_h.unbind(), found.unbind()
    for t in reversed(range(steps)):
        dc.addcmul_(dh[t + 1], all_h[t])
        by_c[t].mul_(beside)
        all_o[t].mul_(dh[t + 1])
        dc.mul_(all_f[t])
        if t or start:
            dh[t].addmm_(each[t], w_hh)
    return Gradients(found, found, [towards[0], dc])


def _gru_there(gates: Tensor, states: Tensor, w_hh: Tensor, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    width, turned = w_hh.size(1), w_hh.t()
    new = gates[..., 2 * width :].clone()
    gates[..., 2 * width :] = 0 if b_hh is None else b_hh[2 * width :]
    r, z, more = (block.unbind() for block in gates.chunk(3, -1))
    r_z = gates[..., : 2 * width].unbind()
    h, n = states.unbind(), new.unbind()
    for t, now in enumerate(gates.unbind()):
        now.addmm_(h[t], turned)
        r_z[t].sigmoid_()
        n[t].addcmul_(r[t], more[t]).tanh_()
        torch.lerp(n[t], h[t], z[t], out=h[t + 1])
    return Kept(states, gates, new)


def _gru_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], w_hh: Tensor, start: bool) -> Gradients:
    r, z, more = kept.gates.chunk(3, -1)
    new = kept.more
    by_n = (1 - new * new).mul_(1 - z)
    found = kept.gates * (1 - kept.gates)
    by_r, by_z, by_more = found.chunk(3, -1)
    by_r.mul_(more).mul_(by_n)
    by_z.mul_(kept.states[:-1] - new)
    torch.mul(by_n, r, out=by_more)
    steps, batch, width = new.shape
    each, blocks = found.unbind(), found.view(steps, batch, 3, width).unbind()
    dh, beside, carried = towards.unbind(), towards.unsqueeze(2).unbind(), z.unbind()
    for t in reversed(range(steps)):
        blocks[t].mul_(beside[t + 1])
        if t or start:
            dh[t].addcmul_(dh[t + 1], carried[t]).addmm_(each[t], w_hh)
    of_input = torch.cat([found[..., : 2 * width], by_n.mul_(towards[1:])], -1)
    return Gradients(of_input, found, [towards[0]])


def _rnn_there(gates: Tensor, states: Tensor, w_hh: Tensor, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    return _one_function(gates, states, w_hh, Tensor.tanh_)


def _relu_there(gates: Tensor, states: Tensor, w_hh: Tensor, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    return _one_function(gates, states, w_hh, Tensor.relu_)


def _one_function(gates: Tensor, states: Tensor, w_hh: Tensor, function: Callable[[Tensor], Tensor]) -> Kept:
    h, turned = states.unbind(), w_hh.t()
    for t, now in enumerate(gates.unbind()):
        function(torch.addmm(now, h[t], turned, out=h[t + 1]))
    return Kept(states, states[:0], states[:0])


def _rnn_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], w_hh: Tensor, start: bool) -> Gradients:
    after = kept.states[1:]
    return _of_one_function((after * after).neg_().add_(1), towards, w_hh, start)


def _relu_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], w_hh: Tensor, start: bool) -> Gradients:
    return _of_one_function((kept.states[1:] > 0).to(towards.dtype), towards, w_hh, start)


def _of_one_function(found: Tensor, towards: Tensor, w_hh: Tensor, start: bool) -> Gradients:
    """``found`` is the derivative of the function."""
    each, dh = found.unbind(), towards.unbind()
    for t in reversed(range(len(each))):
        each[t].mul_(dh[t + 1])
        if t or start:
            dh[t].addmm_(each[t], w_hh)
    return Gradients(found, found, [towards[0]])


_WAYS: dict[str, tuple[Callable[..., Kept], Callable[..., Gradients]]] = {
    "LSTM": (_lstm_there, _lstm_back),
    "GRU": (_gru_there, _gru_back),
    "RNN_TANH": (_rnn_there, _rnn_back),
    "RNN_RELU": (_relu_there, _relu_back),
}
