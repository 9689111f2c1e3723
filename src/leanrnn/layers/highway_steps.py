"""The steps of a recurrent highway layer: written out, and with a backward pass of their own, which is
faster (benchmarks/speed/highway.py).

Left to autograd, every step adds a gradient as large as the weights to the sum of those before it. Here the gradients
of the gates are kept for all steps, and a weight's gradient is one matrix product in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["highway_step", "plain_steps", "quick_steps"]


def highway_step(
    x: Tensor, s: Tensor, mask: Tensor | None, turned: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """The state after one step in time, which is ``len(turned)`` steps in depth.

    ``x`` is what the input adds to both gates of the first, ``s`` the state, and the mask is on what gates read, not on
    what is carried. The weights are turned: their columns are those of the candidate h, then of the transform gate t.
    """
    for i, weight in enumerate(turned):
        gates = (s if mask is None else s * mask) @ weight + (biases[i - 1] if i else x)
        h, t = gates.chunk(2, -1)
        s = s + (h.tanh() - s) * t.sigmoid()
    return s


def plain_steps(
    x: Tensor, s: Tensor, mask: Tensor | None, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """The state after every step in time; autograd differentiates it, as often as need be."""
    turned, found = [weight.t() for weight in weights], []
    for each in x.unbind(0):
        s = highway_step(each, s, mask, turned, biases)
        found.append(s)
    return torch.stack(found)


def quick_steps(
    x: Tensor, s: Tensor, mask: Tensor | None, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """The same numbers, sooner; can be differentiated once."""
    found: Tensor = _Steps.apply(x, s, mask, len(weights), *weights, *biases)  # type: ignore[no-untyped-call]
    return found


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, s: Tensor, mask: Tensor | None, depth: int, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[:depth], parameters[depth:]
        turned = [weight.t() for weight in weights]
        (steps, batch), width = x.shape[:2], s.size(-1)
        # What every step reads and its gates, after their functions; all of them are needed on the way back.
        states = x.new_empty(depth, steps, batch, width)
        gates = x.new_empty(depth, steps, batch, 2 * width)
        outputs = x.new_empty(steps, batch, width)
        for j in range(steps):
            for i in range(depth):
                states[i, j] = s
                now, read = gates[i, j], s if mask is None else s * mask
                torch.addmm(x[j] if i == 0 else biases[i - 1], read, turned[i], out=now)
                h, t = now[:, :width].tanh_(), now[:, width:].sigmoid_()
                s = torch.lerp(s, h, t)
            outputs[j] = s
        ctx.save_for_backward(states, gates, mask, *weights)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, gates, mask, *weights = ctx.saved_tensors
        depth, steps, batch, width = states.shape
        h, t = gates.chunk(2, -1)
        # Derivative of the next state by the gates before their functions, and by the state that is carried.
        by_gates = torch.cat([(1 - h * h) * t, (h - states) * (t * (1 - t))], -1)
        carried = 1 - t
        ds = torch.zeros_like(states[0, 0])
        for j in reversed(range(steps)):
            ds = ds + grad[j]
            for i in reversed(range(depth)):
                now = by_gates[i, j].view(batch, 2, width)
                now.mul_(ds.unsqueeze(1))
                read = now.view(batch, -1) @ weights[i]
                ds = torch.addcmul(read if mask is None else read * mask, ds, carried[i, j])
        reads = (states if mask is None else states * mask).flatten(1, 2)
        flat = by_gates.flatten(1, 2)
        by_weights = [flat[i].t() @ reads[i] for i in range(depth)]
        return by_gates[0], ds, None, None, *by_weights, *(flat[i].sum(0) for i in range(1, depth))
