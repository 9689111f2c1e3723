"""All settings of a question answering run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from leanrnn.errors import ConfigError
from leanrnn.lab.language.config import Precision
from leanrnn.lab.settings import changed

__all__ = ["SquadConfig"]


@dataclass(frozen=True, kw_only=True)
class SquadConfig:
    """What a run depends on. The defaults are the dense model of the paper's source. ::

    replace(RECIPES["squad-bidaf-iss"].config, strength=2e-3, seed=2)
    """

    width: int = 100
    """Hidden units of every LSTM and direction, and filters of the convolution over characters."""
    keep: float = 0.8
    """Probability that a number survives dropout, before every LSTM (but that which reads the text) and every score."""
    keep_characters: float = 0.8
    """The same for the vectors of characters."""
    question_tokens: int = 30
    """Longest question that is trained on; every one is answered."""
    context_tokens: int = 400
    """Texts are cut here in training; answers behind it are left out. Every text is read whole when answering."""
    word_count: int = 10
    """A word that GloVe has not gets a vector of its own if it is more frequent than this."""
    character_count: int = 50
    """The same for a character; all others are one."""

    steps: int = 10_000
    """Updates."""
    batch: int = 60
    """Questions in each."""
    rate: float = 1e-3
    """Learning rate of Adam."""
    average: float = 0.999
    """Part that the average of the weights keeps of itself at every step; the average is what answers."""
    evaluate: int = 1000
    """Steps from one evaluation to the next."""
    judged: int = 0
    """Questions of the evaluations under way, evenly taken; 0: all. The last one is always of all."""
    seed: int = 1
    """Of the first weights, the order of the questions and of dropout."""
    precision: Precision = "float32"
    """Of products of matrices in training. bfloat16 is faster on processors that have it; weights, penalty and every
    evaluation stay in single precision."""

    strength: float = 0.0
    """Weight of the penalty; 0 is a dense run."""
    mode: Literal["loss", "gradient", "proximal"] = "loss"
    """loss: part of the loss, as in the paper; gradient: the same, added when Adam steps; proximal: a step of its own
    after Adam's, by learning rate times strength."""
    scope: Literal["modelling", "recurrent", "all"] = "modelling"
    """Which widths are learned: the six of the paper (modelling and output); those of the contextual LSTM too; or all,
    down to the vectors of words and characters."""
    by_cost: bool = False
    """Weigh the penalty of a layer by the root of the weights that go with one component; the largest has 1."""
    threshold: float = 4e-4
    """Weights of smaller magnitude become zero after every step, in all layers from the contextual LSTM on."""
    group_threshold: float = 0.0
    """Groups of smaller norm become zero as a whole after every step."""
    ramp: int = 0
    """Steps over which the strength rises from zero."""
    penalised: int = 0
    """Steps with the whole penalty; 0: all of them."""
    afterwards: float = 0.3
    """Part of the strength that stays on after them."""
    compact: int = 0
    """Steps from one removal of the dead to the next; 0: only at the end."""
    last_threshold: float = 0.0
    """At the end averaged weights of smaller magnitude become zero, and components that are dead then go, as in the
    paper. 0: those go that are dead in training, whatever is left of them in the average."""

    def __post_init__(self) -> None:
        for name in ("width", "question_tokens", "context_tokens", "steps", "batch", "evaluate"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}. Give at least 1.")
        for name in ("keep", "keep_characters"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}. Give a probability above 0; 1 is no dropout.")
        for name in (
            "strength", "threshold", "group_threshold", "last_threshold", "ramp", "penalised", "afterwards", "compact",
            "judged", "word_count", "character_count",
        ):  # fmt: skip
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}. Give 0 or a positive number.")
        if not 0 < self.rate < math.inf:
            raise ConfigError(f"rate is {self.rate}. Give a positive number.")
        if not 0 <= self.average < 1:
            raise ConfigError(f"average is {self.average}. Give a part below 1; 0 is no average.")

    @property
    def sparse(self) -> bool:
        """Whether there is a penalty."""
        return self.strength > 0

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SquadConfig:
        """The settings of a run folder, or of a TOML file."""
        return changed(cls(), data, "these settings")
