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


def _split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@family
def attention_scaled_by_the_size_of_a_head() -> Family:
    """The root of its size has to stay, so whole heads leave."""

    def forward(m: Any, x: Tensor) -> Tensor:
        y = _split(m.rnn(x)[0], m.heads)
        scores = (y @ y.mT / y.size(-1) ** 0.5).softmax(-1)
        return m.head((scores @ y).transpose(1, 2).flatten(2))

    model = Run(forward, rnn=nn.LSTM(5, 12, batch_first=True), head=nn.Linear(12, 2))
    model.heads = 3
    return Family(model, _x(), {"rnn.l0": 3})


@family
def matrix_memory_over_all_pairs_of_steps() -> Family:
    """xLSTM's matrix memory in its parallel form: projections in blocks, a gate for each head, its decay over time."""

    def forward(m: Any, x: Tensor) -> Tensor:
        inner = m.up(x)
        blocks = inner.unflatten(-1, (m.q.shape[0], -1))
        q, k, v = (torch.einsum("bthd,hod->btho", blocks, w).flatten(2) for w in (m.q, m.k, m.v))
        decay = F.logsigmoid(m.forget(torch.cat([q, k, v], -1))).mT.cumsum(-1)
        kept = torch.exp((decay.unsqueeze(-1) - decay.unsqueeze(-2)).tril())
        q, k, v = (_split(each, decay.size(1)) for each in (q, k, v))
        return m.head((((q @ k.mT / k.size(-1) ** 0.5) * kept).tril() @ v).transpose(1, 2).flatten(2) * F.silu(inner))

    model = Run(forward, up=nn.Linear(5, 12), forget=nn.Linear(36, 3), head=nn.Linear(12, 2))
    model.q, model.k, model.v = (nn.Parameter(torch.randn(6, 2, 2)) for _ in range(3))
    return Family(model, _x(), {"forget": 3})


@family
def four_states_in_one_tensor() -> Family:
    """xLSTM's scalar memory: output, cell, normaliser and stabiliser stacked; of them two are zero where a unit is."""

    def forward(m: Any, x: Tensor) -> Tensor:
        states, outs = x.new_zeros(4, x.size(1), m.hh.in_features), []
        for step in x:
            y, c, n, s = states.view(4, x.size(1), -1).unbind(0)
            i, f, z, o = (m.ih(step) + m.hh(y)).chunk(4, -1)
            kept = F.logsigmoid(f) + s
            s = torch.maximum(kept, i)
            f, i = (kept - s).exp(), (i - s).exp()
            c, n = f * c + i * z.tanh(), f * n + i
            states = torch.stack((o.sigmoid() * c / n, c, n, s))
            outs.append(states[0])
        return m.head(m.norm(torch.stack(outs)))

    parts = {"ih": nn.Linear(5, 4 * H), "hh": nn.Linear(H, 4 * H, bias=False), "norm": nn.LayerNorm(H)}
    return Family(Run(forward, head=nn.Linear(H, 2), **parts), _x(), {"hh": H})


@family
def graph_convolution_in_a_gru() -> Family:
    """Input and state side by side, seen from each node and its neighbour: two columns of a weight for each unit."""

    def seen(*parts: Tensor) -> Tensor:
        joined = torch.cat(parts, -1)
        return torch.stack([joined, joined.flip(1)], -1).flatten(0, 1).flatten(1)

    def forward(m: Any, x: Tensor) -> Tensor:
        h = x.new_zeros(x.size(1), 3, m.head.in_features)
        for step in x:
            r, u = m.gates(seen(step, h)).sigmoid().view(*h.shape[:2], -1).chunk(2, -1)
            h = u * h + (1 - u) * m.new(seen(step, r * h)).tanh().view(h.shape)
        return m.head(h)

    model = Run(forward, gates=nn.Linear(22, 12), new=nn.Linear(22, 6), head=nn.Linear(6, 1))
    return Family(model, torch.randn(4, 2, 3, 5), {"gates": 6})
