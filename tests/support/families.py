"""The families of recurrent models that leanrnn has to take apart: small, each with the widths expected to shrink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

H = 6


class Family(NamedTuple):
    """A model, its example and the widths discovery must offer (by layer name), all others being pinned."""

    model: nn.Module
    example: Any
    widths: dict[str, int]


FAMILIES: dict[str, Callable[[], Family]] = {}


def family(build: Callable[[], Family]) -> Callable[[], Family]:
    """Register a family under the name of its function."""
    FAMILIES[build.__name__] = build
    return build


class Run(nn.Module):
    """A model written as one function of its parts."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.function = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def _x(batch: int = 2, time: int = 4, size: int = 5) -> Tensor:
    return torch.randn(time, batch, size)


def _stack(kind: Callable[..., nn.Module], layers: int, **options: Any) -> Family:
    rnn = kind(5, H, layers, **options)
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=rnn, head=nn.Linear(H, 3))
    return Family(model, _x(), {f"rnn.l{i}": H for i in range(layers)})


for _kind in (nn.LSTM, nn.GRU, nn.RNN):
    for _layers in (1, 2, 3):
        FAMILIES[f"{_kind.__name__.lower()}_{_layers}"] = lambda k=_kind, n=_layers: _stack(k, n)
FAMILIES["rnn_relu"] = lambda: _stack(nn.RNN, 2, nonlinearity="relu")
FAMILIES["no_bias"] = lambda: _stack(nn.LSTM, 2, bias=False)
FAMILIES["batch_first"] = lambda: _stack(nn.GRU, 2, batch_first=True)


@family
def bidirectional() -> Family:
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=nn.LSTM(5, H, 2, bidirectional=True), head=nn.Linear(2 * H, 3))
    return Family(model, _x(), {f"rnn.l{i}{d}": H for i in (0, 1) for d in ("", "_reverse")})


@family
def projected() -> Family:
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=nn.LSTM(5, 8, 2, proj_size=4), head=nn.Linear(4, 3))
    return Family(model, _x(), {"rnn.l0": 8, "rnn.weight_hr_l0": 4, "rnn.l1": 8, "rnn.weight_hr_l1": 4})


def _packed(m: Any, x: Tensor, lengths: Tensor, sorted_: bool) -> Tensor:
    packed = pack_padded_sequence(x, lengths, enforce_sorted=sorted_)
    out, (h, _) = m.rnn(packed)
    padded, _ = pad_packed_sequence(out)
    return m.head(padded) + m.last(h[-1])


@family
def packed_sorted() -> Family:
    parts = {"rnn": nn.LSTM(5, H, 2), "head": nn.Linear(H, 3), "last": nn.Linear(H, 3)}
    model = Run(lambda m, x, n: _packed(m, x, n, True), **parts)
    return Family(model, (_x(3), torch.tensor([4, 3, 2])), {"rnn.l0": H, "rnn.l1": H})


@family
def packed_unsorted() -> Family:
    parts = {"rnn": nn.LSTM(5, H, bidirectional=True), "head": nn.Linear(2 * H, 3), "last": nn.Linear(H, 3)}
    model = Run(lambda m, x, n: _packed(m, x, n, False), **parts)
    return Family(model, (_x(3), torch.tensor([2, 4, 3])), {"rnn.l0": H, "rnn.l0_reverse": H})


@family
def state_given() -> Family:
    model = Run(lambda m, x, h, c: m.head(m.rnn(x, (h, c))[0]), rnn=nn.LSTM(5, H, 2), head=nn.Linear(H, 3))
    return Family(model, (_x(), torch.randn(2, 2, H), torch.randn(2, 2, H)), {"rnn.l0": H, "rnn.l1": H})


@family
def state_returned() -> Family:
    def forward(m: Any, x: Tensor) -> Any:
        out, state = m.rnn(x)
        return m.head(out), state

    return Family(Run(forward, rnn=nn.LSTM(5, H, 2), head=nn.Linear(H, 3)), _x(), {"rnn.l0": H, "rnn.l1": H})


@family
def state_fed_again() -> Family:
    def forward(m: Any, x: Tensor) -> Any:
        first, state = m.rnn(x)
        second, state = m.rnn(x, state)
        return m.head(first + second), state

    return Family(Run(forward, rnn=nn.GRU(5, H, 2), head=nn.Linear(H, 3)), _x(), {"rnn.l0": H, "rnn.l1": H})


@family
def own_initial_state() -> Family:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden_size = H
            self.rnn = nn.GRU(5, H, 2)
            self.head = nn.Linear(H, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = x.new_zeros(2, x.size(1), self.hidden_size)
            return self.head(self.rnn(x, h)[0])

    return Family(Net(), _x(), {"rnn.l0": H, "rnn.l1": H})


def _cells(kind: type[nn.Module]) -> Family:
    def forward(m: Any, x: Tensor) -> Any:
        state, outs = None, []
        for step in x:
            state = m.cell(step, state)
            outs.append(state[0] if isinstance(state, tuple) else state)
        return m.head(torch.stack(outs)), state

    return Family(Run(forward, cell=kind(5, H), head=nn.Linear(H, 3)), _x(), {"cell": H})  # type: ignore[call-arg]


FAMILIES["lstm_cell"] = lambda: _cells(nn.LSTMCell)
FAMILIES["gru_cell"] = lambda: _cells(nn.GRUCell)
FAMILIES["rnn_cell"] = lambda: _cells(nn.RNNCell)


@family
def cell_states_by_hand() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.size(1), m.cell.hidden_size)
        out = x.new_zeros(x.size(0), x.size(1), m.cell.hidden_size)
        for t, step in enumerate(x):
            h, c = m.cell(step, (h, c))
            out[t] = h
        return m.head(out)

    return Family(Run(forward, cell=nn.LSTMCell(5, H), head=nn.Linear(H, 3)), _x(), {"cell": H})


class Gated(nn.Module):
    """An LSTM written from raw parameters; ``style`` says how the gates are computed and taken apart."""

    def __init__(self, style: str, forget: str = "own", peephole: bool = False) -> None:
        super().__init__()
        self.style, self.forget, self.peephole = style, forget, peephole
        self.w = nn.Parameter(torch.randn(5, 4 * H) * 0.4)
        self.u = nn.Parameter(torch.randn(H, 4 * H) * 0.4)
        self.b = nn.Parameter(torch.randn(4 * H) * 0.4)
        self.p = nn.Parameter(torch.randn(3, H) * 0.4)
        self.head = nn.Linear(H, 3)

    def gates(self, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        if self.style == "einsum":
            z = torch.einsum("bi,ij->bj", x, self.w) + torch.einsum("bi,ij->bj", h, self.u) + self.b
        elif self.style == "linear":
            z = F.linear(x, self.w.t(), self.b) + F.linear(h, self.u.t())
        elif self.style == "cat":
            z = torch.cat([x, h], 1) @ torch.cat([self.w, self.u], 0) + self.b
        else:
            z = x @ self.w + h @ self.u + self.b
        if self.style == "split":
            return z.split(z.size(1) // 4, dim=1)
        if self.style == "slice":
            n = z.size(1) // 4
            return tuple(z[:, i * n : (i + 1) * n] for i in range(4))
        if self.style == "unbind":
            return z.view(z.size(0), 4, -1).unbind(1)
        return z.chunk(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.size(1), self.u.size(0))
        c, outs = h, []
        for step in x:
            i, f, g, o = self.gates(step, h)
            if self.peephole:
                i, f, o = i + self.p[0] * c, f + self.p[1] * c, o + self.p[2] * c
            i = torch.sigmoid(i)
            f = 1 - i if self.forget == "coupled" else torch.sigmoid(f)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return self.head(torch.stack(outs))


for _style in ("matmul", "einsum", "linear", "cat", "split", "slice", "unbind"):
    FAMILIES[f"raw_{_style}"] = lambda s=_style: Family(Gated(s), _x(), {"u": H})
FAMILIES["peephole"] = lambda: Family(Gated("matmul", peephole=True), _x(), {"u": H})
FAMILIES["coupled_gates"] = lambda: Family(Gated("matmul", forget="coupled"), _x(), {"u": H})


@family
def minimal_gated_unit() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h, outs = x.new_zeros(x.size(1), m.f.out_features), []
        for step in x:
            f = torch.sigmoid(m.f(torch.cat([step, h], 1)))
            h = (1 - f) * h + f * torch.tanh(m.g(torch.cat([step, f * h], 1)))
            outs.append(h)
        return m.head(torch.stack(outs))

    parts = {"f": nn.Linear(5 + H, H), "g": nn.Linear(5 + H, H), "head": nn.Linear(H, 3)}
    return Family(Run(forward, **parts), _x(), {"f": H})


@family
def li_gru() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        t, b, _ = x.shape
        w = m.norm(m.w(x).view(t * b, -1)).view(t, b, -1)
        h, outs = x.new_zeros(b, m.u.in_features), []
        for step in w:
            a, z = (step + m.u(h)).chunk(2, 1)
            z = torch.sigmoid(z)
            h = z * h + (1 - z) * torch.relu(a)
            outs.append(h)
        return m.head(torch.stack(outs))

    parts = {"w": nn.Linear(5, 2 * H, bias=False), "norm": nn.BatchNorm1d(2 * H), "u": nn.Linear(H, 2 * H, bias=False)}
    return Family(Run(forward, **parts, head=nn.Linear(H, 3)), _x(), {"u": H})


@family
def sru() -> Family:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(5, 3 * H)
            self.v = nn.Parameter(torch.randn(2, H))
            self.head = nn.Linear(H, 3)

        def forward(self, x: Tensor) -> Tensor:
            u = self.w(x)
            c, outs = u.new_zeros(x.size(1), self.v.size(1)), []
            for step in u:
                z, f, r = step.chunk(3, -1)
                f, r = torch.sigmoid(f + self.v[0] * c), torch.sigmoid(r + self.v[1] * c)
                c = f * c + (1 - f) * z
                outs.append(r * c)
            return self.head(torch.stack(outs))

    return Family(Net(), _x(), {"w": H})


@family
def qrnn() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        z, f, o = m.conv(F.pad(x.permute(1, 2, 0), (1, 0))).permute(2, 0, 1).chunk(3, -1)
        c, outs = None, []
        for t in range(x.size(0)):
            gate = torch.sigmoid(f[t])
            c = (1 - gate) * torch.tanh(z[t]) if c is None else gate * c + (1 - gate) * torch.tanh(z[t])
            outs.append(torch.sigmoid(o[t]) * c)
        return m.head(torch.stack(outs, 0))

    return Family(Run(forward, conv=nn.Conv1d(5, 3 * H, 2), head=nn.Linear(H, 3)), _x(), {"conv": H})


class RHN(nn.Module):
    """A Recurrent Highway Network with tied embedding, as in the paper."""

    def __init__(self, words: int = 9, width: int = H, depth: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        make = lambda size: nn.ModuleList([nn.Linear(size if i == 0 else width, width) for i in range(depth)])  # noqa: E731
        self.h, self.t = make(2 * width), make(2 * width)
        self.out_bias = nn.Parameter(torch.zeros(words))

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words)
        s, outs = x.new_zeros(x[0].shape), []
        for step in x:
            for i, (h, t) in enumerate(zip(self.h, self.t, strict=True)):
                a = torch.cat([step, s], 1) if i == 0 else s
                gate = torch.sigmoid(t(a))
                s = (torch.tanh(h(a)) - s) * gate + s
            outs.append(s)
        return F.linear(torch.stack(outs), self.embedding.weight, self.out_bias)


@family
def rhn() -> Family:
    return Family(RHN(), torch.randint(0, 9, (4, 2)), {"h.0": H})


@family
def residual_layers() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        a = m.a(x)[0]
        return m.head(a + m.b(a)[0])

    return Family(Run(forward, a=nn.LSTM(5, H), b=nn.LSTM(H, H), head=nn.Linear(H, 3)), _x(), {"a.l0": H})


@family
def dense_concatenation() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        a = m.a(x)[0]
        b = m.b(torch.cat([x, a], -1))[0]
        return m.head(torch.cat([x, a, b], -1))

    parts = {"a": nn.GRU(5, H), "b": nn.GRU(5 + H, H), "head": nn.Linear(5 + 2 * H, 3)}
    return Family(Run(forward, **parts), _x(), {"a.l0": H, "b.l0": H})
