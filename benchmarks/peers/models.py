"""The dozen small models of docs/compared.md, each with half of its hidden units dead beforehand.

A dead unit has zeros in its gate rows, its biases and every column that reads it, so it computes zero and nobody
notices when it goes. Whoever removes the units of smallest magnitude has to choose these, and has to give back the same
outputs. The dead units have the same numbers in every layer and direction: some tools can remove no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# torch.ao traces with torch.fx, which takes these two as they are only if told so; nobody else sees it.
torch.fx.wrap("pack_padded_sequence")
torch.fx.wrap("pad_packed_sequence")

INPUT, HIDDEN, CLASSES, WORDS = 10, 16, 5, 30
DEAD = (1, 2, 4, 7, 8, 11, 13, 14)
ALIVE = tuple(k for k in range(HIDDEN) if k not in DEAD)


class Case(NamedTuple):
    """A model in evaluation mode and the arguments of its forward."""

    model: nn.Module
    inputs: tuple[Tensor, ...]


class Outputs(nn.Module):
    """A recurrent layer and a linear head on all its outputs."""

    def __init__(self, rnn: nn.Module, width: int = HIDDEN) -> None:
        super().__init__()
        self.rnn, self.head = rnn, nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        return self.head(out)


class Last(Outputs):
    """A head on the last hidden state."""

    def forward(self, x: Tensor) -> Tensor:
        _, (h, _) = self.rnn(x)
        return self.head(h[-1])


class Packed(Outputs):
    """Sequences of unequal length."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        out, _ = self.rnn(pack_padded_sequence(x, lengths, batch_first=True))
        padded, _ = pad_packed_sequence(out, batch_first=True)
        return self.head(padded)


class Stateful(Outputs):
    """A state comes in and goes out."""

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, (h, c) = self.rnn(x, (h, c))
        return self.head(out), h, c


class Tied(nn.Module):
    """A language model whose softmax layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, HIDDEN), nn.Linear(HIDDEN, WORDS)
        self.rnn = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        out, _ = self.rnn(self.embedding(words))
        return self.head(out)


class Normed(Outputs):
    """LayerNorm between the recurrent layer and its head."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__(rnn)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        return self.head(self.norm(out))


class Cells(Outputs):
    """A cell in a Python loop."""

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], self.rnn.hidden_size)
        outs = []
        for step in range(x.shape[1]):
            h, c = self.rnn(x[:, step], (h, c))
            outs.append(h)
        return self.head(torch.stack(outs, 1))


class Residual(Outputs):
    """The second layer adds to the first."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__(rnn)
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        first, _ = self.rnn(x)
        second, _ = self.second(first)
        return self.head(first + second)


class Attentive(Outputs):
    """A head on the outputs' mean, weighted by attention."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__(rnn)
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        weights = torch.softmax(self.score(torch.tanh(out)), dim=1)
        return self.head((weights * out).sum(1))


def lstm(**options: Any) -> nn.LSTM:
    """The layer most of the models have."""
    return nn.LSTM(INPUT, HIDDEN, batch_first=True, **options)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "LSTM, head on all outputs": lambda: Outputs(lstm()),
    "two layers": lambda: Outputs(lstm(num_layers=2)),
    "bidirectional": lambda: Outputs(lstm(bidirectional=True), 2 * HIDDEN),
    "GRU": lambda: Outputs(nn.GRU(INPUT, HIDDEN, batch_first=True)),
    "head on h_n": lambda: Last(lstm()),
    "packed sequence": lambda: Packed(lstm()),
    "state in and out": lambda: Stateful(lstm()),
    "tied embedding": Tied,
    "LayerNorm": lambda: Normed(lstm()),
    "cell in a loop": lambda: Cells(nn.LSTMCell(INPUT, HIDDEN)),
    "residual": lambda: Residual(lstm()),
    "attention": lambda: Attentive(lstm()),
}


def build(name: str, dead: bool = True) -> Case:
    """The model of that name, always with the same weights, and inputs for it."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    if dead:
        _kill(model)
    x = torch.randn(3, 7, INPUT)
    if isinstance(model, Packed):
        return Case(model, (x, torch.tensor([7, 5, 2])))
    if isinstance(model, Stateful):
        return Case(model, (x, torch.randn(1, 3, HIDDEN), torch.randn(1, 3, HIDDEN)))
    return Case(model, (torch.randint(WORDS, (3, 7)),) if isinstance(model, Tied) else (x,))


def units(model: nn.Module) -> int:
    """Hidden units of all recurrent layers and directions."""
    return sum(p.shape[1] for name, p in model.named_parameters() if "weight_hh" in name)


def _kill(model: nn.Module) -> None:
    """Zero every index of a hidden width, in every tensor that has one: the only axes of 16, 32 and gates times 16."""
    widths = {HIDDEN: 1, 2 * HIDDEN: 2, 3 * HIDDEN: 3, 4 * HIDDEN: 4}
    for parameter in model.parameters():
        for axis, size in enumerate(parameter.shape):
            if size in widths:
                index = [block * HIDDEN + k for block in range(widths[size]) for k in DEAD]
                parameter.data.index_fill_(axis, torch.tensor(index), 0.0)
