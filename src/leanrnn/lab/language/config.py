"""All settings of a run of a language model in one flat record; a recipe is a complete one with a name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from leanrnn.errors import ConfigError
from leanrnn.lab.sparse_settings import SparseSettings, check_at_least_one, check_not_negative, check_positive

__all__ = ["Cell", "Config"]

Corpus = Literal["ptb", "text", "python"]
Rate = Literal["decay", "thirds", "line"]
Cell = Literal["lstm", "gru", "rnn", "rhn"]


@dataclass(frozen=True, kw_only=True)
class Config(SparseSettings):
    """What a run depends on. The defaults are the paper's small language model, dense. ::

    replace(RECIPES["ptb-lstm-small-iss"], strength=3e-3, seed=2)
    """

    corpus: Corpus = "ptb"
    """ptb: ptb.train.txt and its two companions; text: files of your own; python: the documentation of Python."""
    tokens: Literal["word", "character"] = "word"
    """Units of the text; Penn Treebank is always words."""
    vocabulary: int = 10_000
    """Size of the vocabulary: the most frequent tokens; all others are one token. Penn Treebank has its own."""
    held_out: float = 0.05
    """Part of your own text that is used for validation, and as much again for the test."""

    cell: Cell = "lstm"
    """What the layers are: LSTM, GRU, RNN with tanh, or a Recurrent Highway Network."""
    depth: int = 1
    """Layers of one time step of a Recurrent Highway Network."""
    embedding: int = 200
    """Width of the embedding."""
    widths: tuple[int, ...] = (200, 200)
    """Hidden units of every layer."""
    tied: bool = False
    """Use the embedding as the output matrix too."""
    init: float = 0.1
    """Weights start uniform between minus and plus this. Biases start at zero, those of the transform gates of a
    Recurrent Highway Network at -2."""
    drop_word: float = 0.0
    """Dropout of whole words: a dropped word is dropped everywhere in a window."""
    drop_input: float = 0.0
    """Recurrent Highway Network: dropout of the input of a layer, with one mask for a window."""
    drop_hidden: float = 0.0
    """Recurrent Highway Network: dropout of the state that the gates read, with one mask for a window."""
    drop_output: float = 0.0
    """Dropout before the output layer, with one mask for a window; for any cell."""
    drop_recurrent: float = 0.0
    """LSTM, GRU and RNN: dropout of the recurrent weights, with one mask for a window. In a sparse run it starts with
    the recovery."""
    drop_factor: float = 1.0
    """Multiplies drop_word, drop_input, drop_hidden and drop_output. The paper's sparse runs have 0.6."""
    follow: bool = False
    """Reduce dropout as the model shrinks: by the square root of the part of units that is left."""

    epochs: int = 13
    """Passes over the training text."""
    window: int = 20
    """Tokens per update, over which gradients flow; the loss is their sum."""
    schedule: Rate = "decay"
    """Learning rate. decay: constant, then times `decay` every epoch; thirds: divided by ten after every third of the
    epochs, as in the paper's sparse runs; line: constant, then linear to zero."""
    constant: int = 4
    """Epochs at the full learning rate."""
    decay: float = 0.5
    """Factor of the learning rate for every epoch after the constant ones (schedule decay)."""
    clip: float = 5.0
    """Largest norm of the gradient."""
    l2: float = 0.0
    """Weight decay: half the sum of squares of all parameters, times this, in the loss."""
    best: bool = False
    """Keep the model of the epoch with the best validation perplexity (within the budget, if there is one) instead of
    the last."""

    penalty: Literal["group_lasso", "l1"] = "group_lasso"
    """Penalise groups as a whole, or single weights."""
    scope: Literal["recurrent", "all"] = "recurrent"
    everywhere: bool = True
    """Apply the threshold to all parameters, as in the paper's language model, not to groups alone."""
    keep_widths: tuple[int, ...] = ()
    """Cut the model to these widths before training, by the norms of its groups. Needs --start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least_one(self, "embedding", "depth", "epochs", "window", "vocabulary")
        check_positive(self, "clip", "init", "decay")
        check_not_negative(self, "constant", "l2")
        _check(self)

    def rate_at(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        if self.schedule == "thirds":
            return float(self.rate * 0.1 ** (epoch // max(1, self.epochs // 3)))
        if self.schedule == "line":
            left = (self.epochs - epoch) / max(1, self.epochs - self.constant + 1)
            return self.rate * min(1.0, left)
        return float(self.rate * self.decay ** max(epoch + 1 - self.constant, 0))

    def drop_recurrent_at(self, epoch: int) -> float:
        """The part of the weights from state to state that is dropped in an epoch, counted from 0."""
        return self.drop_recurrent if epoch >= self.recovers_from else 0.0

    @property
    def recovers_from(self) -> int:
        """The epoch with which survivors begin to recover, counted from 0; 0 if there is no such time."""
        if self.budget:
            return math.ceil((self.warm_up + self.shrink) * self.epochs)
        return self.penalised if self.sparse else 0

    @property
    def counts_from(self) -> int:
        """The first epoch, counted from 0, that ends with a model that may be the result: one within its budget."""
        return max(0, self.recovers_from - 1) if self.budget else 0

    @property
    def averaged_from(self) -> int:
        """The epoch with which the average of the weights begins; -1 for never."""
        return self.recovers_from if self.average else -1


def _check(config: Config) -> None:
    """Refuse settings no run can have."""
    if not config.widths or min(config.widths) < 1:
        raise ConfigError(f"widths are {config.widths}. Give at least one layer of at least one unit.")
    if min(config.keep_widths, default=1) < 1:
        raise ConfigError(f"keep_widths are {config.keep_widths}. Keep at least one unit of every layer.")
    for name in ("drop_word", "drop_input", "drop_hidden", "drop_output"):
        if not 0 <= (p := getattr(config, name)) * config.drop_factor < 1 or p < 0:
            raise ConfigError(f"{name} is {p}, times {config.drop_factor}. Give a probability below 1; 0 is none.")
    if not 0 <= config.drop_recurrent < 1:
        raise ConfigError(f"drop_recurrent is {config.drop_recurrent}. Give a probability below 1; 0 is none.")
    if config.cell == "rhn" and config.drop_recurrent:
        raise ConfigError("drop_recurrent is for lstm, gru and rnn. The cell rhn has drop_hidden.")
    if config.cell != "rhn" and (config.depth > 1 or config.drop_input or config.drop_hidden):
        raise ConfigError(f"depth, drop_input and drop_hidden are for the cell rhn, and this is {config.cell}.")
    if config.tied and config.embedding != config.widths[-1]:
        raise ConfigError(
            f"the embedding is {config.embedding} wide and the last layer {config.widths[-1]}. Give both one width, "
            "since they are tied."
        )
    if not 0 < config.held_out < 0.5:
        raise ConfigError(f"held_out is {config.held_out}. Give a part between 0 and one half.")
