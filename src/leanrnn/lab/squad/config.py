"""All settings of a question answering run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leanrnn.errors import ConfigError
from leanrnn.lab.sparse_settings import SparseSettings, check_at_least_one, check_not_negative

__all__ = ["SquadConfig"]


@dataclass(frozen=True, kw_only=True)
class SquadConfig(SparseSettings):
    """What a run depends on. The defaults are the dense model of the paper's source. ::

    replace(RECIPES["squad-bidaf-iss"].config, strength=2e-3, seed=2)
    """

    # What is documented with all settings, and begins with other values here.
    keep: float = 0.8
    batch: int = 60
    rate: float = 1e-3
    average: float = 0.999
    scope: Literal["modelling", "recurrent", "all"] = "modelling"
    threshold: float = 4e-4
    ramp: int = 0
    afterwards: float = 0.3

    width: int = 100
    """Hidden units of every LSTM and direction, and filters of the convolution over characters."""
    keep_characters: float = 0.8
    """The same as `keep`, for character embeddings."""
    question_tokens: int = 30
    """Longest question that is trained on; every one is answered."""
    context_tokens: int = 400
    """Texts are cut here in training; answers behind it are left out. Every text is read whole when answering."""
    word_count: int = 10
    """A word that is not in GloVe has its own vector if it occurs more often than this."""
    character_count: int = 50
    """The same for characters; all others share one vector."""

    steps: int = 10_000
    """Training steps."""
    evaluate: int = 1000
    """Steps between evaluations."""
    judged: int = 0
    """Questions, evenly sampled, in the evaluations during training; 0: all. The last evaluation always has all."""
    last_threshold: float = 0.0
    """At the end, averaged weights of smaller magnitude become zero, and components that are then dead are removed, as
    in the paper. 0: remove the components that are dead in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least_one(self, "width", "question_tokens", "context_tokens", "steps", "evaluate")
        check_not_negative(self, "last_threshold", "judged", "word_count", "character_count")
        if not 0 < self.keep_characters <= 1:
            raise ConfigError(
                f"keep_characters is {self.keep_characters}. Give a probability above 0; 1 is no dropout."
            )
