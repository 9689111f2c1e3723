"""Recurrent parts of random architectures: torch's own layers, its cells in loops, and cells written by hand.

All take ``[time, batch, features]`` and give ``(outputs, state)``; ``width`` tells how wide the outputs are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm


class Draw:
    """Choices of one architecture; sizes of different roles are equal on purpose more often than not."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.common = rng.randint(2, 6)

    def size(self) -> int:
        """A width, a length or a batch."""
        return self.common if self.chance(0.6) else self.rng.randint(2, 8)

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.rng.randint(0, 99) < 100 * share

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[self.rng.randint(0, len(options) - 1)]


class Layers(nn.Module):
    """nn.LSTM, nn.GRU or nn.RNN with any of their options."""

    def __init__(self, draw: Draw, inputs: int, kind: str) -> None:
        super().__init__()
        hidden, options = draw.size(), dict[str, Any]()
        options["num_layers"] = draw.pick([1, 1, 2, 3])
        options["bias"] = draw.chance(0.8)
        options["bidirectional"] = draw.chance(0.3)
        options["batch_first"] = draw.chance(0.3)
        if options["num_layers"] > 1 and draw.chance(0.3):
            options["dropout"] = 0.3
        if kind == "RNN":
            options["nonlinearity"] = draw.pick(["tanh", "relu"])
        if kind == "LSTM" and hidden > 2 and draw.chance(0.2):
            options["proj_size"] = draw.rng.randint(2, hidden - 1)
        self.rnn = getattr(nn, kind)(inputs, hidden, **options)
        self.out_width = (options.get("proj_size") or hidden) * (2 if options["bidirectional"] else 1)
        if draw.chance(0.1):
            for name in draw.pick([["weight_hh_l0"], ["weight_hh_l0", "weight_ih_l0"]]):
                weight_norm(self.rnn, name)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        if self.rnn.batch_first:
            out, state = self.rnn(x.transpose(0, 1), state)
            return out.transpose(0, 1), state
        out, state = self.rnn(x, state)
        return out, state


def gathered(style: str, outs: list[Tensor]) -> Tensor:
    """Steps laid side by side in one of the ways people do it."""
    if style == "stack":
        return torch.stack(outs)
    if style == "cat":
        return torch.cat([o.unsqueeze(0) for o in outs])
    if style == "batch_buffer":
        buffer = outs[0].new_empty(outs[0].size(0), len(outs), outs[0].size(1))
        for t, o in enumerate(outs):
            buffer[:, t] = o
        return buffer.transpose(0, 1)
    buffer = outs[0].new_zeros(len(outs), *outs[0].shape)
    for t, o in enumerate(outs):
        buffer[t] = o
    return buffer


class Cell(nn.Module):
    """A loop over time; ``step`` gives the next state, whose first tensor is the output."""

    states = 1

    def __init__(self, draw: Draw, hidden: int) -> None:
        super().__init__()
        self.out_width = hidden
        self.gather = draw.pick(["stack", "cat", "buffer", "batch_buffer"])
        self.backwards = draw.chance(0.15)
        self.remembers = draw.chance(0.2)
        if draw.chance(0.15):
            self.start = nn.Parameter(torch.zeros(self.states, hidden))

    def zeros(self, x: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        if hasattr(self, "start"):
            return tuple(s.expand(x.size(1), -1) for s in self.start.unbind(0))
        width = self.out_width if self.remembers else like.size(-1)
        return tuple(x.new_zeros(x.size(1), width) for _ in range(self.states))

    def prepare(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        steps = list(self.prepare(x).unbind(0))
        state = self.zeros(x, self.like()) if state is None else state
        outs = []
        for step in reversed(steps) if self.backwards else steps:
            state = self.step(step, state)
            outs.append(state[0])
        return gathered(self.gather, outs[::-1] if self.backwards else outs), state

    def like(self) -> Tensor:
        raise NotImplementedError

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        raise NotImplementedError


class TorchCell(Cell):
    """nn.LSTMCell, nn.GRUCell or nn.RNNCell in a loop."""

    def __init__(self, draw: Draw, inputs: int) -> None:
        kind = draw.pick([nn.LSTMCell, nn.GRUCell, nn.RNNCell])
        self.states = 2 if kind is nn.LSTMCell else 1
        super().__init__(draw, draw.size())
        self.cell = kind(inputs, self.out_width, bias=draw.chance(0.8))

    def like(self) -> Tensor:
        return self.cell.weight_hh

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return self.cell(x, state) if self.states == 2 else (self.cell(x, state[0]),)


class Raw(Cell):
    """An LSTM of raw matrices, with the gates taken apart in every way people do it."""

    states = 2

    def __init__(self, draw: Draw, inputs: int) -> None:
        super().__init__(draw, draw.size())
        hidden = self.out_width
        self.cut = draw.pick(["chunk", "split", "slice", "unbind", "interleaved", "lists"])
        self.joined, self.coupled = draw.chance(0.3), draw.chance(0.3)
        self.w = nn.ParameterList([torch.empty(inputs, 4 * hidden), torch.empty(hidden, 4 * hidden)])
        self.b = nn.Parameter(torch.empty(4 * hidden)) if draw.chance(0.7) else None
        self.peep = nn.Parameter(torch.empty(3, hidden)) if draw.chance(0.3) else None

    def like(self) -> Tensor:
        return self.w[1].t()

    def gates(self, z: Tensor) -> Sequence[Tensor]:
        n = z.size(1) // 4
        if self.cut == "split":
            return z.split(n, dim=-1)
        if self.cut == "slice":
            return [z[:, i * n : (i + 1) * n] for i in range(4)]
        if self.cut == "unbind":
            return z.view(z.size(0), 4, -1).unbind(1)
        if self.cut == "interleaved":
            return z.unflatten(-1, (-1, 4)).unbind(-1)
        return z.split([n, n, n, n], 1) if self.cut == "lists" else z.chunk(4, 1)

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = state
        z = torch.cat([x, h], 1) @ torch.cat([self.w[0], self.w[1]]) if self.joined else x @ self.w[0] + h @ self.w[1]
        i, f, g, o = self.gates(z if self.b is None else z + self.b)
        if self.peep is not None:
            i, f, o = i + self.peep[0] * c, f + self.peep[1] * c, o + self.peep[2] * c
        i = torch.sigmoid(i)
        c = (1 - i if self.coupled else torch.sigmoid(f)) * c + i * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Normed(Cell):
    """An LSTM with layer normalisation inside the cell."""

    states = 2

    def __init__(self, draw: Draw, inputs: int) -> None:
        super().__init__(draw, draw.size())
        hidden = self.out_width
        self.x, self.h = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.gates = nn.LayerNorm(4 * hidden) if draw.chance(0.5) else None
        self.norm = nn.LayerNorm(hidden)

    def like(self) -> Tensor:
        return self.h.weight

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        z = self.x(x) + self.h(state[0])
        i, f, g, o = (z if self.gates is None else self.gates(z)).chunk(4, -1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norm(c)), c


class Minimal(Cell):
    """Minimal gated unit, Elman network or independent recurrence from nn.Linear."""

    def __init__(self, draw: Draw, inputs: int) -> None:
        super().__init__(draw, draw.size())
        hidden = self.out_width
        self.kind = draw.pick(["mgu", "elman", "elman_joined", "independent"])
        total = inputs if self.kind in ("elman", "independent") else inputs + hidden
        self.g = nn.Linear(total, hidden)
        if self.kind == "mgu":
            self.f = nn.Linear(total, hidden)
        elif self.kind == "elman":
            self.h = nn.Linear(hidden, hidden, bias=False)
        elif self.kind == "independent":
            self.u = nn.Parameter(torch.empty(hidden))

    def like(self) -> Tensor:
        return self.g.weight.t()

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h = state[0]
        if self.kind == "mgu":
            f = torch.sigmoid(self.f(torch.cat([x, h], 1)))
            return ((1 - f) * h + f * torch.tanh(self.g(torch.cat([x, f * h], 1))),)
        if self.kind == "elman_joined":
            return (torch.tanh(self.g(torch.cat([x, h], 1))),)
        return (torch.tanh(self.g(x) + (self.h(h) if self.kind == "elman" else self.u * h)),)


class Projected(Cell):
    """Gates computed for all steps at once: SRU, QRNN (a convolution over time) and Li-GRU (a batch norm)."""

    def __init__(self, draw: Draw, inputs: int) -> None:
        super().__init__(draw, draw.size())
        hidden = self.out_width
        self.kind = draw.pick(["sru", "qrnn", "ligru"])
        if self.kind == "qrnn":
            self.w = nn.Conv1d(inputs, 3 * hidden, 2)
        else:
            self.w = nn.Linear(inputs, (3 if self.kind == "sru" else 2) * hidden)
        if self.kind == "ligru":
            self.norm, self.u = nn.BatchNorm1d(2 * hidden), nn.Linear(hidden, 2 * hidden, bias=False)
        elif self.kind == "sru":
            self.v = nn.Parameter(torch.empty(2, hidden))

    def like(self) -> Tensor:
        width = self.w.weight.size(0) // (2 if self.kind == "ligru" else 3)
        return self.w.weight[:width].reshape(width, -1).t()

    def prepare(self, x: Tensor) -> Tensor:
        if self.kind == "qrnn":
            return self.w(F.pad(x.permute(1, 2, 0), (1, 0))).permute(2, 0, 1)
        z = self.w(x)
        return z if self.kind == "sru" else self.norm(z.flatten(0, 1)).view(z.shape)

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        c = state[0]
        if self.kind == "ligru":
            a, z = (x + self.u(c)).chunk(2, 1)
            return (torch.sigmoid(z) * c + (1 - torch.sigmoid(z)) * torch.relu(a),)
        z, f, r = x.chunk(3, -1)
        if self.kind == "sru":
            f, r = f + self.v[0] * c, r + self.v[1] * c
        f = torch.sigmoid(f)
        return (torch.sigmoid(r) * (f * c + (1 - f) * torch.tanh(z)),)


class Highway(Cell):
    """A Recurrent Highway Network of depth 1 to 3."""

    def __init__(self, draw: Draw, inputs: int) -> None:
        super().__init__(draw, draw.size())
        sizes = [inputs + self.out_width] + [self.out_width] * draw.pick([0, 1, 2])
        self.h = nn.ModuleList([nn.Linear(n, self.out_width) for n in sizes])
        self.t = nn.ModuleList([nn.Linear(n, self.out_width) for n in sizes])

    def like(self) -> Tensor:
        return self.h[0].weight.t()

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        s = state[0]
        for i, (h, t) in enumerate(zip(self.h, self.t, strict=True)):
            a = torch.cat([x, s], 1) if i == 0 else s
            s = (torch.tanh(h(a)) - s) * torch.sigmoid(t(a)) + s
        return (s,)


RECURRENT: dict[str, Callable[[Draw, int], nn.Module]] = {
    "LSTM": lambda draw, inputs: Layers(draw, inputs, "LSTM"),
    "GRU": lambda draw, inputs: Layers(draw, inputs, "GRU"),
    "RNN": lambda draw, inputs: Layers(draw, inputs, "RNN"),
    "cell": TorchCell,
    "raw": Raw,
    "normed": Normed,
    "minimal": Minimal,
    "projected": Projected,
    "highway": Highway,
}
