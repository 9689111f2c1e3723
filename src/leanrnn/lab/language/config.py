"""All settings of a training run in one flat record; a recipe is a complete one with a name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from leanrnn.errors import ConfigError
from leanrnn.lab.settings import changed

__all__ = ["Cell", "Config", "Precision"]

Corpus = Literal["ptb", "text", "python"]
Rate = Literal["decay", "thirds", "line"]
Cell = Literal["lstm", "gru", "rnn", "rhn"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a run depends on. The defaults are the paper's small language model, dense. ::

    replace(RECIPES["ptb-lstm-small-iss"], strength=3e-3, seed=2)
    """

    corpus: Corpus = "ptb"
    """ptb: ptb.train.txt and its two companions; text: files of your own; python: the documentation of Python."""
    tokens: Literal["word", "character"] = "word"
    """What the text is cut into; Penn Treebank is always words."""
    vocabulary: int = 10_000
    """Most frequent tokens that are told apart; all others are one. Penn Treebank's is its own."""
    held_out: float = 0.05
    """Part of your own text that is kept for validation, and as much again for the test."""

    cell: Cell = "lstm"
    """What the layers are: LSTM, GRU, RNN with tanh, or a Recurrent Highway Network."""
    depth: int = 1
    """Of a Recurrent Highway Network: steps in depth for one in time."""
    embedding: int = 200
    """Numbers that stand for a word."""
    widths: tuple[int, ...] = (200, 200)
    """Hidden units of every layer."""
    tied: bool = False
    """The embedding is the matrix of the output too."""
    init: float = 0.1
    """Weights start uniform between minus and plus this, biases of LSTM, GRU and RNN at zero, those of the transform
    gates of a Recurrent Highway Network at -2."""
    keep: float = 1.0
    """Probability that a number survives dropout, between the layers and around them."""
    drop_word: float = 0.0
    """Probability that a word is dropped, wherever it stands in a window."""
    drop_input: float = 0.0
    """Of a Recurrent Highway Network: that a number a layer reads is dropped, the same one in a whole window."""
    drop_hidden: float = 0.0
    """The same for the state that its gates read."""
    drop_output: float = 0.0
    """The same for the numbers that the scores are made of; any cell may have it."""
    drop_recurrent: float = 0.0
    """Of LSTM, GRU and RNN: that a weight from state to state is dropped, the same one in a whole window. In a sparse
    run it begins with the epochs in which survivors recover."""
    drop_factor: float = 1.0
    """Of the four before the last. The paper's sparse runs have 0.6."""
    follow: bool = False
    """Let dropout fall with the widths: by the root of the part of units that is left."""

    epochs: int = 13
    """Passes over the training text."""
    batch: int = 20
    """Streams read side by side."""
    window: int = 20
    """Tokens from one update to the next, over which gradients flow; the loss is their sum."""
    rate: float = 1.0
    """Learning rate of plain SGD."""
    schedule: Rate = "decay"
    """decay: constant, then times `decay` every epoch; thirds: a tenth after every third of the epochs, as the paper's
    source does in its sparse runs; line: constant, then down to zero in a line."""
    constant: int = 4
    """Epochs at the full learning rate."""
    decay: float = 0.5
    """Factor of the learning rate for every epoch after those."""
    clip: float = 5.0
    """Largest norm of all gradients together."""
    l2: float = 0.0
    """Weight of half the square of all parameters in the loss."""
    average: float = 0.0
    """Part that an average of the weights, which is what is judged and kept, keeps of itself at every step; 0: none.
    In a sparse run it begins with the epochs in which survivors recover."""
    best: bool = False
    """Keep the model of the epoch with the best validation perplexity; otherwise that of the last."""
    seed: int = 1
    """Of the first weights and of dropout."""
    precision: Precision = "float32"
    """Of products of matrices in training; bfloat16 is faster where a processor has it. All else stays float32."""

    strength: float = 0.0
    """Weight of the penalty; 0 is a dense run."""
    penalty: Literal["group_lasso", "l1"] = "group_lasso"
    """What is penalised: groups as a whole, or single weights."""
    mode: Literal["loss", "gradient", "proximal"] = "loss"
    """loss: part of the loss, clipped with it, as in the paper; gradient: added after clipping; proximal: a step of its
    own after the optimizer's."""
    scope: Literal["recurrent", "all"] = "recurrent"
    """Which widths are learned: those of the layers, or that of the embedding too."""
    by_cost: bool = False
    """Weigh the penalty of a layer by the root of the mult-adds that go with one component; the dearest has 1."""
    threshold: float = 1e-4
    """Weights of smaller magnitude become zero after every step."""
    everywhere: bool = True
    """The threshold is for all parameters, as in the paper's language model; otherwise for weights in groups alone."""
    group_threshold: float = 0.0
    """Groups of smaller norm become zero as a whole after every step."""
    ramp: float = 0.0
    """Epochs over which the strength rises from zero."""
    penalised: int = 0
    """Epochs with the penalty; in the rest, if there are more, the survivors recover. 0: all of them."""
    afterwards: float = 0.0
    """Part of the strength that stays on while they recover, to keep the model from learning by heart."""
    compact: int = 0
    """Steps from one removal of the dead to the next; 0: only at the end."""
    keep_widths: tuple[int, ...] = ()
    """Cut the model to these widths before training, by the norms of its groups; needs a run to start from."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sparse(self) -> bool:
        """Whether there is a penalty."""
        return self.strength > 0

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
        return self.penalised if self.sparse else 0

    @property
    def averaged_from(self) -> int:
        """The epoch with which the average of the weights begins; -1 for never."""
        return self.recovers_from if self.average else -1

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` reads it back."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """The settings of a run folder, or of a TOML file."""
        return changed(cls(), data, "these settings")


def _check(config: Config) -> None:
    """Refuse settings no run can have."""
    for name in ("embedding", "depth", "epochs", "batch", "window", "vocabulary"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is {getattr(config, name)}. Give at least 1.")
    if not config.widths or min(config.widths) < 1:
        raise ConfigError(f"widths are {config.widths}. Give at least one layer of at least one unit.")
    if min(config.keep_widths, default=1) < 1:
        raise ConfigError(f"keep_widths are {config.keep_widths}. Keep at least one unit of every layer.")
    if not 0 < config.keep <= 1:
        raise ConfigError(f"keep is {config.keep}. Give a probability above 0; 1 is no dropout.")
    if not 0 <= config.average < 1:
        raise ConfigError(f"average is {config.average}. Give a part below 1; 0 is no average.")
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
    for name in (
        "strength", "threshold", "group_threshold", "ramp", "compact", "penalised", "afterwards", "constant", "l2",
    ):  # fmt: skip
        if not 0 <= getattr(config, name) < math.inf:
            raise ConfigError(f"{name} is {getattr(config, name)}. Give 0 or a positive number.")
    for name in ("rate", "clip", "init", "decay"):
        if not 0 < getattr(config, name) < math.inf:
            raise ConfigError(f"{name} is {getattr(config, name)}. Give a positive number.")
