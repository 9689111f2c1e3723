"""The language model of the paper: an embedding, LSTM layers one after the other, a linear layer over all words."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import CheckpointError
from leanrnn.recipes.config import Config

__all__ = ["LanguageModel", "State", "costs", "language_model", "load_language_model"]

State: TypeAlias = list[tuple[Tensor, Tensor]]
"""Of every layer its hidden and its cell state."""


class LanguageModel(nn.Module):
    """Scores of the next word for every word of a text, time first, and the state to go on with. ::

    model = LanguageModel(words=10_000, embedding=200, widths=(200, 200), keep=0.5)
    scores, state = model(torch.zeros(35, 20, dtype=torch.long))

    A layer is a module of its own, so that layers may have any widths; each is what ``nn.LSTM`` is.
    """

    def __init__(self, words: int, embedding: int, widths: tuple[int, ...], keep: float = 1.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding)
        self.layers = nn.ModuleList(nn.LSTM(n, m) for n, m in zip((embedding, *widths), widths, strict=False))
        self.head = nn.Linear(widths[-1], words)
        self.dropouts = nn.ModuleList(nn.Dropout(1 - keep) for _ in range(len(widths) + 1))

    def forward(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Dropout hits what goes up, never what goes on in time."""
        x, after = self.dropouts[0](self.embedding(words)), []
        for i, layer in enumerate(self.layers):
            x, kept = layer(x, None if state is None else state[i])
            x = self.dropouts[i + 1](x)
            after.append(kept)
        return self.head(x), after

    @property
    def layer_names(self) -> list[str]:
        """Of every layer the name of its width in the groups."""
        return [f"layers.{i}.l0" for i in range(len(self.layers))]

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of the layers as they are now."""
        return tuple(int(layer.weight_hh_l0.size(1)) for layer in self.layers)  # type: ignore[operator]

    def follow(self, keep: float, widths: tuple[int, ...]) -> None:
        """Let dropout of every layer fall with the root of the part that is left of its first width."""
        for dropout, now, first in zip(self.dropouts[1:], self.widths, widths, strict=True):
            dropout.p = (1 - keep) * (now / first) ** 0.5


def language_model(config: Config, words: int) -> LanguageModel:
    """A new model as the configuration wants it: weights uniform, one bias for each gate, which starts at zero.

    ``nn.LSTM`` adds two biases, which under SGD learn twice as fast as the paper's one; the second stays at zero.
    """
    model = LanguageModel(words, config.embedding, config.widths, config.keep)
    generator = torch.Generator().manual_seed(config.seed)
    for name, parameter in model.named_parameters():
        if name.startswith("layers.") and ".bias_" in name:
            nn.init.zeros_(parameter)
            parameter.requires_grad_(".bias_ih_" in name)
        else:
            nn.init.uniform_(parameter, -config.init, config.init, generator=generator)
    return model


def costs(config: Config, words: int) -> dict[str, int]:
    """Mult-adds that go with one component of every layer, and of the embedding, of a model as it starts: those of its
    gates and of all that read it. ::

        costs(Config(), 10_000)  # {"embedding": 800, "layers.0.l0": 3200, "layers.1.l0": 12400}
    """
    sizes = (config.embedding, *config.widths)
    found = {"embedding": 4 * sizes[1]}
    for i, width in enumerate(config.widths):
        above = 4 * sizes[i + 2] if i + 2 < len(sizes) else words
        found[f"layers.{i}.l0"] = 4 * (sizes[i] + 2 * width) + above
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
            f"{path} is not of a language model that leanrnn has trained. Load it with leanrnn.load."
        ) from error
    model = leanrnn.load(path, lambda: language_model(config, words))
    assert isinstance(model, LanguageModel)
    return model
