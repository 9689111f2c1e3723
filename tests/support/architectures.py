"""Random recurrent architectures: small float64 models in which wrong code has nowhere to hide.

``build(random.Random(seed))`` gives the same model for the same seed; ``architectures()`` is a hypothesis strategy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.support.architecture_cells import RECURRENT, Draw, Layers
from tests.support.architecture_parts import Between, Head


@dataclass(frozen=True, eq=False)
class Architecture:
    """A model, its example and a way to make inputs of other lengths and batches."""

    model: nn.Module
    time: int
    batch: int
    kinds: dict[str, str]
    """Kind of every recurrent part by the prefix of its parameter names."""
    fixed_time: bool = False
    insists: bool = False
    """Whether Python code holds on to a width or divides by one, which no operator shows and only a trial can tell."""

    @property
    def example(self) -> Any:
        """What discovery runs on."""
        return self.inputs(self.time, self.batch)

    def inputs(self, time: int, batch: int) -> Any:
        """Inputs of another length and batch; the length stays where the model has a fixed one."""
        return self.model.inputs(self.time if self.fixed_time else time, batch)


def build(rng: random.Random) -> Architecture:
    """A random architecture, drawn from ``rng`` alone."""
    draw = Draw(rng)
    time = draw.pick([draw.common, 2, 3, 3])  # every step costs an operator or ten
    batch = draw.pick([1, draw.size(), draw.size()])
    make = draw.pick([Stack] * 6 + [Translator, Twin, Parallel])
    with torch.random.fork_rng():
        torch.manual_seed(rng.randint(0, 2**31))
        model = make(draw, time).double()
        randomise_(model)
    model.train(draw.chance(0.4))
    return Architecture(model, time, batch, model.kinds, model.fixed_time, model.divides_by_width)


def architectures() -> st.SearchStrategy[Architecture]:
    """Random architectures whose choices hypothesis can shrink."""
    return st.randoms(use_true_random=False).map(build)


@torch.no_grad()
def randomise_(model: nn.Module) -> None:
    """Random numbers everywhere: biases, norms and running statistics too, since zeros and ones hide mistakes."""
    for p in model.parameters():
        p.normal_(0, 0.5)
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5) if name.endswith("var") else buffer.normal_(0, 0.5)


class Net(nn.Module):
    """What all random models share: an input of words or numbers, and a head."""

    def __init__(self, draw: Draw, time: int) -> None:
        super().__init__()
        self.kinds: dict[str, str] = {}
        self.fixed_time = self.divides_by_width = False
        self.words = draw.size() if draw.chance(0.3) else 0
        self.in_width = draw.size()
        self.embedding = nn.Embedding(self.words, self.in_width) if self.words else None

    def draws(self, time: int, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(time * 100 + batch)
        if self.words:
            return torch.randint(0, self.words, (time, batch), generator=generator)
        return torch.randn(time, batch, self.in_width, generator=generator, dtype=torch.float64)

    def inputs(self, time: int, batch: int) -> Any:
        return self.draws(time, batch)

    def embedded(self, x: Tensor) -> Tensor:
        return x if self.embedding is None else self.embedding(x)

    def recurrent(self, draw: Draw, name: str, inputs: int, kind: str | None = None) -> nn.Module:
        kind = kind or draw.pick(list(RECURRENT))
        self.kinds[name] = kind
        return RECURRENT[kind](draw, inputs)


class Block(nn.Module):
    """A recurrent part, what follows it, and how the result meets the input."""

    def __init__(self, draw: Draw, rnn: nn.Module, inputs: int) -> None:
        super().__init__()
        self.rnn = rnn
        self.after, width = nn.ModuleList(), rnn.out_width
        for _ in range(draw.pick([0, 0, 1, 1, 2])):
            self.after.append(Between(draw, width))
            width = self.after[-1].out_width
        self.join = draw.pick(["plain", "plain", "residual", "dense"])
        self.match = nn.Linear(inputs, width) if self.join == "residual" and inputs != width else None
        self.out_width = width + inputs if self.join == "dense" else width

    def forward(self, x: Any, state: Any = None) -> tuple[Tensor, Any]:
        out, state = self.rnn(x, state)
        return self.joined(x, out), state

    def joined(self, x: Tensor, out: Tensor) -> Tensor:
        for part in self.after:
            out = part(out)
        if self.join == "dense":
            return torch.cat([x, out], -1)
        return out + (x if self.match is None else self.match(x)) if self.join == "residual" else out


class Stack(Net):
    """One to three recurrent blocks and a head; may be packed, tied, fed with a state and return it."""

    def __init__(self, draw: Draw, time: int) -> None:
        super().__init__(draw, time)
        width = self.in_width
        self.blocks = nn.ModuleList()
        self.packed = draw.chance(0.1)
        for i in range(draw.pick([1, 1, 2, 3])):
            kind = draw.pick(["LSTM", "GRU", "RNN"]) if self.packed and i == 0 else None
            rnn = self.recurrent(draw, f"blocks.{i}.rnn", width, kind)
            self.blocks.append(Block(draw, rnn, width))
            width = self.blocks[-1].out_width
        self.tied = bool(self.words) and draw.chance(0.5)
        self.down = nn.Linear(width, self.in_width) if self.tied and width != self.in_width else None
        self.head = Head(draw, width, time)
        self.fixed_time = self.head.fixed_time and not self.tied
        self.returns = draw.pick(["result", "result", "tuple", "dict"])
        self.takes_state = self.returns != "result" and not self.packed and draw.chance(0.5)

    def inputs(self, time: int, batch: int) -> Any:
        x = self.draws(time, batch)
        if not self.packed:
            return x
        generator = torch.Generator().manual_seed(time + batch)
        lengths = torch.randint(1, time + 1, (batch,), generator=generator)
        lengths[0] = time
        return x, lengths

    def forward(self, x: Tensor, lengths: Any = None, states: Any = None) -> Any:
        x = self.embedded(x)
        states = [None] * len(self.blocks) if states is None else states
        news = []
        for i, (block, state) in enumerate(zip(self.blocks, states, strict=True)):
            x, new = self.through_packed(block, x, lengths) if self.packed and i == 0 else block(x, state)
            news.append(new)
        result = self.result(x, news[-1])
        if self.returns == "result":
            return result
        return (result, news) if self.returns == "tuple" else {"result": result, "states": news}

    def through_packed(self, block: nn.Module, x: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
        rnn = block.rnn.rnn
        given = x.transpose(0, 1) if rnn.batch_first else x
        packed = pack_padded_sequence(given, lengths, batch_first=rnn.batch_first, enforce_sorted=False)
        out, state = rnn(packed)
        out = pad_packed_sequence(out)[0]
        return block.joined(x, out), state

    def result(self, x: Tensor, state: Any) -> Tensor:
        if self.tied:
            return (x if self.down is None else self.down(x)) @ self.embedding.weight.t()
        if self.head.kind == "state" and isinstance(self.blocks[-1].rnn, Layers) and self.state_fits():
            h = state[0] if isinstance(state, tuple) else state
            both = self.blocks[-1].rnn.rnn.bidirectional
            return self.head.out(torch.cat([h[-2], h[-1]], -1) if both else h[-1])
        return self.head(x)

    def state_fits(self) -> bool:
        """Whether the head can read the last layer's state in place of its outputs."""
        block = self.blocks[-1]
        return len(block.after) == 0 and block.join == "plain"


class Translator(Net):
    """Encoder and decoder of one kind with the state passed on, and an attention in between or none."""

    def __init__(self, draw: Draw, time: int) -> None:
        super().__init__(draw, time)
        kind, hidden, layers = draw.pick([nn.LSTM, nn.GRU, nn.RNN]), draw.size(), draw.pick([1, 2])
        self.target_width = draw.size()
        self.shared = self.target_width == self.in_width and not self.words and draw.chance(0.5)
        self.encoder = kind(self.in_width, hidden, layers)
        self.decoder = self.encoder if self.shared else kind(self.target_width, hidden, layers)
        self.attention = draw.pick(["none", "dot", "scaled", "general", "additive"])
        self.divides_by_width = self.attention == "scaled"
        inner = draw.size()
        if self.attention == "general":
            self.general = nn.Linear(hidden, hidden, bias=False)
        elif self.attention == "additive":
            self.key, self.query, self.score = nn.Linear(hidden, inner), nn.Linear(hidden, inner), nn.Linear(inner, 1)
        self.out = nn.Linear(hidden if self.attention == "none" else 2 * hidden, draw.size())
        self.kinds = {"encoder": f"encoder-{kind.__name__}"}
        if not self.shared:
            self.kinds["decoder"] = f"decoder-{kind.__name__}"

    def inputs(self, time: int, batch: int) -> Any:
        generator = torch.Generator().manual_seed(time)
        target = torch.randn(time, batch, self.target_width, generator=generator, dtype=torch.float64)
        return self.draws(time, batch), target

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, state = self.encoder(self.embedded(source))
        out, _ = self.decoder(target, state)
        if self.attention == "none":
            return self.out(out)
        query, keys = out.transpose(0, 1), memory.transpose(0, 1)
        weights = self.scores(query, keys).softmax(-1)
        return self.out(torch.cat([query, weights @ keys], -1))

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        if self.attention == "additive":
            mixed = self.query(query).unsqueeze(2) + self.key(keys).unsqueeze(1)
            return self.score(torch.tanh(mixed)).squeeze(-1)
        query = self.general(query) if self.attention == "general" else query
        scores = query @ keys.transpose(1, 2)
        return scores / keys.size(-1) ** 0.5 if self.attention == "scaled" else scores


class Twin(Net):
    """One recurrent part used on two inputs, whose outputs meet."""

    def __init__(self, draw: Draw, time: int) -> None:
        super().__init__(draw, time)
        self.rnn = self.recurrent(draw, "rnn", self.in_width)
        self.meet = draw.pick(["difference", "product", "cat", "distance"])
        width = self.rnn.out_width * (2 if self.meet == "cat" else 1)
        self.out = nn.Linear(1 if self.meet == "distance" else width, draw.size())

    def inputs(self, time: int, batch: int) -> Any:
        return self.draws(time, batch), self.draws(time + 1, batch)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = (self.rnn(self.embedded(x))[0][-1] for x in (a, b))
        if self.meet == "cat":
            return self.out(torch.cat([a, b], -1))
        if self.meet == "product":
            return self.out(a * b)
        return self.out((a - b).abs() if self.meet == "difference" else ((a - b) ** 2).sum(-1, keepdim=True))


class Parallel(Net):
    """Two recurrent parts on the same input, joined into one."""

    def __init__(self, draw: Draw, time: int) -> None:
        super().__init__(draw, time)
        self.a, self.b = (self.recurrent(draw, name, self.in_width) for name in ("a", "b"))
        equal = self.a.out_width == self.b.out_width
        self.meet = draw.pick(["sum", "product", "maximum"]) if equal else "cat"
        self.block = Between(draw, self.a.out_width if equal else self.a.out_width + self.b.out_width)
        self.head = Head(draw, self.block.out_width, time)
        self.fixed_time = self.head.fixed_time

    def forward(self, x: Tensor) -> Any:
        x = self.embedded(x)
        (a, _), (b, state) = self.a(x), self.b(x)
        met = {"sum": torch.add, "product": torch.mul, "maximum": torch.maximum}.get(self.meet)
        return self.head(self.block(torch.cat([a, b], -1) if met is None else met(a, b))), state
