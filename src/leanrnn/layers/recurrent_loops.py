"""The loops of an LSTM, a GRU and an RNN over time, there and back, each with one product a step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["WAYS", "Adding", "Gradients", "Kept"]

Adding = Callable[[Tensor, Tensor], Any]
"""Adds to its first argument the product of the second with the weight from state to state."""
_relu = functools.partial(torch.clamp_min, min=0)
_by_tanh, _by_sigmoid = torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward
"""Given something and the value of the function, the derivative of the function times that something."""


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


def _lstm_there(gates: Tensor, states: Tensor, add: Adding, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    cells, width = torch.empty_like(states), states.size(-1)
    cells[0] = s[1][0]
    i, f, g, o = (block.unbind() for block in gates.chunk(4, -1))
    i_f = gates[..., : 2 * width].unbind()
    h, c = states.unbind(), cells.unbind()
    for t, now in enumerate(gates.unbind()):
        add(now, h[t])
        i_f[t].sigmoid_()
        g[t].tanh_()
        o[t].sigmoid_()
        torch.mul(f[t], c[t], out=c[t + 1]).addcmul_(i[t], g[t])
        torch.tanh(c[t + 1], out=h[t + 1]).mul_(o[t])
    return Kept(states, gates, cells)


def _lstm_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], add: Adding, start: bool) -> Gradients:
    i, f, g, o = kept.gates.chunk(4, -1)
    out = kept.more[1:].tanh()
    # Derivatives: of c by h, of what gates read by c, and for the output gate by h.
    by_h = _by_tanh(o, out)
    found = torch.empty_like(kept.gates)
    by_i, by_f, by_g, by_o = found.chunk(4, -1)
    _by_sigmoid(g, i, grad_input=by_i)
    _by_sigmoid(kept.more[:-1], f, grad_input=by_f)
    _by_tanh(i, g, grad_input=by_g)
    _by_sigmoid(out, o, grad_input=by_o)
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
            add(dh[t], each[t])
    return Gradients(found, found, [towards[0], dc])


def _gru_there(gates: Tensor, states: Tensor, add: Adding, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    width = states.size(-1)
    new = gates[..., 2 * width :].clone()
    gates[..., 2 * width :] = 0 if b_hh is None else b_hh[2 * width :]
    r, z, more = (block.unbind() for block in gates.chunk(3, -1))
    r_z = gates[..., : 2 * width].unbind()
    h, n = states.unbind(), new.unbind()
    for t, now in enumerate(gates.unbind()):
        add(now, h[t])
        r_z[t].sigmoid_()
        n[t].addcmul_(r[t], more[t]).tanh_()
        torch.lerp(n[t], h[t], z[t], out=h[t + 1])
    return Kept(states, gates, new)


def _gru_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], add: Adding, start: bool) -> Gradients:
    r, z, more = kept.gates.chunk(3, -1)
    new = kept.more
    by_n = _by_tanh(1 - z, new)
    found = torch.empty_like(kept.gates)
    by_r, by_z, by_more = found.chunk(3, -1)
    _by_sigmoid(torch.mul(more, by_n, out=by_more), r, grad_input=by_r)
    _by_sigmoid(kept.states[:-1] - new, z, grad_input=by_z)
    torch.mul(by_n, r, out=by_more)
    steps, batch, width = new.shape
    each, blocks = found.unbind(), found.view(steps, batch, 3, width).unbind()
    dh, beside, carried = towards.unbind(), towards.unsqueeze(2).unbind(), z.unbind()
    for t in reversed(range(steps)):
        blocks[t].mul_(beside[t + 1])
        if t or start:
            add(dh[t].addcmul_(dh[t + 1], carried[t]), each[t])
    of_input = torch.cat([found[..., : 2 * width], by_n.mul_(towards[1:])], -1)
    return Gradients(of_input, found, [towards[0]])


def _rnn_there(gates: Tensor, states: Tensor, add: Adding, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    return _one_function(gates, states, add, torch.tanh)


def _relu_there(gates: Tensor, states: Tensor, add: Adding, b_hh: Tensor | None, s: Sequence[Tensor]) -> Kept:
    return _one_function(gates, states, add, _relu)


def _one_function(gates: Tensor, states: Tensor, add: Adding, function: Callable[..., Tensor]) -> Kept:
    h = states.unbind()
    for t, now in enumerate(gates.unbind()):
        add(now, h[t])
        function(now, out=h[t + 1])
    return Kept(states, states[:0], states[:0])


def _rnn_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], add: Adding, start: bool) -> Gradients:
    after = kept.states[1:]
    return _of_one_function(_by_tanh(torch.ones_like(after), after), towards, add, start)


def _relu_back(kept: Kept, towards: Tensor, last: Sequence[Tensor], add: Adding, start: bool) -> Gradients:
    return _of_one_function((kept.states[1:] > 0).to(towards.dtype), towards, add, start)


def _of_one_function(found: Tensor, towards: Tensor, add: Adding, start: bool) -> Gradients:
    """``found`` is the derivative of the function."""
    each, dh = found.unbind(), towards.unbind()
    for t in reversed(range(len(each))):
        each[t].mul_(dh[t + 1])
        if t or start:
            add(dh[t], each[t])
    return Gradients(found, found, [towards[0]])


WAYS: dict[str, tuple[Callable[..., Kept], Callable[..., Gradients]]] = {
    "LSTM": (_lstm_there, _lstm_back),
    "GRU": (_gru_there, _gru_back),
    "RNN_TANH": (_rnn_there, _rnn_back),
    "RNN_RELU": (_relu_there, _relu_back),
}
"""By the kind of layer: there, from what inputs add to gates; back, from the gradient of every state."""
