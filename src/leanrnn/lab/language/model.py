"""The language model of the recipes: an embedding, recurrent layers one after the other, a linear layer over all
words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import CheckpointError
from leanrnn.lab.language.config import Cell, Config
from leanrnn.lab.language.dropout import LockedDropout, RecurrentDropout, WordDropout
from leanrnn.layers import RecurrentHighway

__all__ = [
    "LanguageModel", "State", "costs", "detached", "drops", "language_model", "load_language_model", "parts_of",
    "state_of",
]  # fmt: skip

LayerState: TypeAlias = Tensor | tuple[Tensor, ...]
State: TypeAlias = list[LayerState]
"""Of every layer its hidden state; of an LSTM that and its cell state."""
GATES = {"lstm": 4, "gru": 3, "rnn": 1, "rhn": 2}
"""Times its width a layer has rows."""


class LanguageModel(nn.Module):
    """Scores of the next word for every word of a text, time first, and the state to go on with. ::

        model = LanguageModel(words=10_000, embedding=200, widths=(200, 200), keep=0.5)
        scores, state = model(torch.zeros(35, 20, dtype=torch.long))

    A layer is a module of its own, so that layers may have any widths; each is what ``nn.LSTM`` is, or ``nn.GRU``,
    ``nn.RNN`` or :class:`leanrnn.layers.RecurrentHighway`.
    """

    def __init__(
        self,
        words: int,
        embedding: int,
        widths: tuple[int, ...],
        keep: float = 1.0,
        *,
        cell: Cell = "lstm",
        depth: int = 1,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding)
        sizes = zip((embedding, *widths), widths, strict=False)
        self.layers = nn.ModuleList(_layer(cell, n, m, depth) for n, m in sizes)
        self.head = nn.Linear(widths[-1], words)
        if tied:
            self.head.weight = self.embedding.weight
        self.dropouts = nn.ModuleList(nn.Dropout(1 - keep) for _ in range(len(widths) + 1))
        self.word_dropout, self.output_dropout = WordDropout(0.0), LockedDropout(0.0)
        self.recurrent_dropout = RecurrentDropout(0.0)

    def forward(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Dropout hits what goes up; what goes on in time it hits inside a highway layer, and in weights."""
        x, after = self.dropouts[0](self.word_dropout(self.embedding(words), words)), []
        for i, layer in enumerate(self.layers):
            x, last = self.recurrent_dropout(layer, x, None if state is None else state[i])
            x = self.dropouts[i + 1](x)
            after.append(last)
        return self.head(self.output_dropout(x)), after

    @property
    def layer_names(self) -> list[str]:
        """Of every layer the name of its width in the groups."""
        return [f"layers.{i}.l0" for i in range(len(self.layers))]

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of the layers as they are now."""
        return tuple(int(layer.weight_hh_l0.size(1)) for layer in self.layers)  # type: ignore[operator]

    @property
    def drops(self) -> list[float]:
        """Probabilities of all that is dropped while training, in an order of their own; all, or the first, can be
        set."""
        return [getattr(module, name) for module, name in self._dropping()]

    @drops.setter
    def drops(self, values: Sequence[float]) -> None:
        for (module, name), value in zip(self._dropping(), values, strict=False):
            setattr(module, name, value)

    def first_state(self, batch: int) -> State:
        """The state that a text begins with. ::

        scores, state = model(words, model.first_state(batch=20))
        """
        like, parts = self.head.weight, 2 if isinstance(self.layers[0], nn.LSTM) else 1
        return [state_of([like.new_zeros(1, batch, width) for _ in range(parts)]) for width in self.widths]

    def scale_dropout(self, keep: float, widths: tuple[int, ...]) -> None:
        """Let dropout of every layer fall with the root of the part that is left of its first width."""
        for dropout, now, first in zip(self.dropouts[1:], self.widths, widths, strict=True):
            dropout.p = (1 - keep) * (now / first) ** 0.5

    def _dropping(self) -> list[tuple[nn.Module, str]]:
        found: list[tuple[nn.Module, str]] = [(module, "p") for module in self.dropouts]
        for layer in self.layers:
            if isinstance(layer, RecurrentHighway):
                found += [(layer, "input_dropout"), (layer, "hidden_dropout")]
        return [*found, (self.word_dropout, "p"), (self.output_dropout, "p"), (self.recurrent_dropout, "p")]


def _layer(cell: Cell, inputs: int, width: int, depth: int) -> nn.Module:
    if cell == "rhn":
        return RecurrentHighway(inputs, width, depth)
    made: dict[str, Callable[[int, int], nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
    return made[cell](inputs, width)


def parts_of(state: LayerState) -> tuple[Tensor, ...]:
    """The tensors of the state of a layer."""
    return state if isinstance(state, tuple) else (state,)


def state_of(parts: Sequence[Tensor]) -> LayerState:
    """The reverse of it: what a layer wants."""
    return tuple(parts) if len(parts) > 1 else parts[0]


def detached(state: State) -> State:
    """The same numbers, without what they were computed from."""
    return [state_of([part.detach() for part in parts_of(each)]) for each in state]


def drops(config: Config, epoch: int = 0) -> list[float]:
    """What :attr:`LanguageModel.drops` is to be when an epoch begins."""
    factor, layers = config.drop_factor, len(config.widths)
    inside = [config.drop_input * factor, config.drop_hidden * factor] * layers if config.cell == "rhn" else []
    whole = [config.drop_word * factor, config.drop_output * factor, config.drop_recurrent_at(epoch)]
    return [1 - config.keep] * (layers + 1) + inside + whole


def language_model(config: Config, words: int) -> LanguageModel:
    """A new model as the configuration wants it: weights uniform, one bias for each gate, which starts at zero.

    ``nn.LSTM`` and ``nn.RNN`` add two biases, which under SGD learn twice as fast as the paper's one; the second stays
    at zero. In ``nn.GRU`` the second is one of its own, and learns. In a highway layer biases of candidates start as
    weights do, and those of transform gates at -2.
    """
    model = LanguageModel(
        words, config.embedding, config.widths, config.keep, cell=config.cell, depth=config.depth, tied=config.tied
    )
    model.drops = drops(config)
    generator = torch.Generator().manual_seed(config.seed)
    for name, parameter in model.named_parameters():
        if name.startswith("layers.") and ".bias_" in name and config.cell != "rhn":
            nn.init.zeros_(parameter)
            parameter.requires_grad_(".bias_ih_" in name or config.cell == "gru")
        else:
            nn.init.uniform_(parameter, -config.init, config.init, generator=generator)
    for layer in model.layers:
        if isinstance(layer, RecurrentHighway):
            layer.close_gates()
    return model


def costs(config: Config, words: int) -> dict[str, int]:
    """Mult-adds that go with one component of every layer, and of the embedding, of a model as it starts: those of its
    gates and of all that read it. ::

        costs(Config(), 10_000)  # {"embedding": 800, "layers.0.l0": 3200, "layers.1.l0": 12400}
    """
    sizes, gates = (config.embedding, *config.widths), GATES[config.cell]
    found = {"embedding": gates * sizes[1]}
    for i, width in enumerate(config.widths):
        above = gates * sizes[i + 2] if i + 2 < len(sizes) else words
        found[f"layers.{i}.l0"] = gates * (sizes[i] + 2 * width * config.depth) + above
    if config.tied:  # a component of the last layer is one of the embedding too
        found[f"layers.{len(config.widths) - 1}.l0"] += found.pop("embedding")
    return found


def load_language_model(path: Path) -> LanguageModel:
    """The model of a file that a run has written. ::

    model = load_language_model(Path("runs/mine/model.safetensors"))
    """
    said = leanrnn.about(path)
    try:
        config, words = Config.from_json(said["config"]), len(said["words"])
    except KeyError as error:
        raise CheckpointError(
            f"{path} is not of a model that leanrnn train has written. A model of your own needs the function "
            "that makes it too: --factory MODULE:FUNCTION."
        ) from error
    model = leanrnn.load(path, lambda: language_model(config, words))
    assert isinstance(model, LanguageModel)
    return model
