"""Families of newer recurrences: linear ones, complex ones, states that are matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.families import FAMILIES, Family, H, Run, _x, family


class LinearRecurrentUnit(nn.Module):
    """A linear recurrence with a diagonal of complex numbers (LRU), from real parameters as its authors wrote it."""

    def __init__(self) -> None:
        super().__init__()
        self.nu, self.theta, self.gamma = (nn.Parameter(torch.rand(H)) for _ in range(3))
        self.b_real, self.b_imag = (nn.Parameter(torch.randn(H, 5)) for _ in range(2))
        self.c_real, self.c_imag = (nn.Parameter(torch.randn(5, H)) for _ in range(2))
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        decay = torch.exp(torch.complex(-torch.exp(self.nu), torch.exp(self.theta)))
        inward = torch.complex(self.b_real, self.b_imag) * self.gamma.unsqueeze(-1)
        outward = torch.complex(self.c_real, self.c_imag)
        h, outs = torch.zeros(x.size(1), self.nu.size(0), dtype=decay.dtype), []
        for step in x:
            h = decay * h + step.to(decay.dtype) @ inward.mT
            outs.append((h @ outward.mT).real)
        return self.head(torch.stack(outs))


FAMILIES["lru"] = lambda: Family(LinearRecurrentUnit(), _x(), {"gamma": H})


@family
def lru_of_pairs() -> Family:
    """The same recurrence on pairs of real numbers that are seen as complex ones."""

    def forward(m: Any, x: Tensor) -> Tensor:
        decay, h, outs = torch.polar(torch.sigmoid(m.nu.bias), m.theta.bias), 0, []
        for step in x:
            h = decay * h + torch.view_as_complex(m.inward(step).unflatten(-1, (-1, 2)).contiguous())
            outs.append(torch.view_as_real(h).flatten(-2))
        return m.head(torch.stack(outs))

    parts = {
        "inward": nn.Linear(5, 2 * H),
        "nu": nn.Linear(1, H),
        "theta": nn.Linear(1, H),
        "head": nn.Linear(2 * H, 3),
    }
    return Family(Run(forward, **parts), _x(), {"inward": H})


@family
def gates_of_block_diagonal_weights() -> Family:
    """Griffin's gated linear recurrence (RG-LRU): each head has gates of its own, which multiply what they read."""

    def forward(m: Any, x: Tensor) -> Tensor:
        inward = m.inward(x)
        heads = inward.flatten(0, 1).unflatten(-1, m.write.shape[:2]).transpose(0, 1)
        write, keep = (
            torch.baddbmm(b[:, None], heads, w).transpose(0, 1).reshape(inward.shape).sigmoid()
            for w, b in ((m.write, m.write_bias), (m.keep, m.keep_bias))
        )
        decay, h, outs = torch.exp(-keep * F.softplus(m.pace.bias)), 0, []
        for step, pace in zip(inward * write, decay, strict=True):
            h = pace * h + (1 - pace**2).sqrt() * step
            outs.append(h)
        return m.head(torch.stack(outs) * F.gelu(m.gate(x)))

    parts = {"inward": nn.Linear(5, 12), "pace": nn.Linear(1, 12), "gate": nn.Linear(5, 12), "head": nn.Linear(12, 3)}
    model = Run(forward, **parts)
    for name in ("write", "keep"):
        setattr(model, name, nn.Parameter(torch.randn(2, 6, 6)))
        setattr(model, f"{name}_bias", nn.Parameter(torch.randn(2, 6)))
    return Family(model, _x(), {"keep": 6})


class MatrixState(nn.Module):
    """A matrix as the state of each head, written by products of keys and values, a norm over each head behind it."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.size, wide = heads, size, heads * size
        self.r, self.k, self.v, self.o = (nn.Linear(wide, wide) for _ in range(4))
        self.weight, self.bias = nn.Parameter(torch.rand(wide)), nn.Parameter(torch.randn(wide))

    def forward(self, x: Tensor) -> Tensor:
        r, k, v = (w(x).view(*x.shape[:2], self.heads, self.size) for w in (self.r, self.k, self.v))
        state, outs = x.new_zeros(x.size(1), self.heads, self.size, self.size), []
        for read, key, value in zip(r, k, v, strict=True):
            state = 0.5 * state + value.unsqueeze(-1) @ key.unsqueeze(-2)
            outs.append((state @ read.unsqueeze(-1)).flatten(1))
        normed = F.group_norm(torch.cat(outs), self.heads, self.weight, self.bias).view(*x.shape[:2], -1)
        return x + torch.tanh(self.o(normed))


@family
def matrix_state_of_heads() -> Family:
    """Whole heads can leave: the norm is a call that divides by the size of a head."""

    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(m.two(m.one(m.inward(x))))

    parts = {"one": MatrixState(3, 6), "two": MatrixState(3, 6)}
    model = Run(forward, inward=nn.Linear(5, 18), head=nn.Linear(18, 2), **parts)
    return Family(model, _x(), {"one.r": 3, "two.r": 3})
