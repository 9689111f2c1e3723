"""The settings that runs of every task have: how they are trained, and how the model is made sparse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import leanrnn
from leanrnn.errors import ConfigError
from leanrnn.lab.settings import changed

__all__ = ["Precision", "SparseSettings", "check_at_least_one", "check_not_negative", "check_positive"]

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class SparseSettings:
    """What every run depends on. A task adds settings of its own, and may give these other defaults. ::

    class Config(SparseSettings): ...
    """

    keep: float = 1.0
    """Probability that a number survives dropout: between the layers and around them; in question answering before
    every LSTM (but that which reads the text) and every score."""
    batch: int = 20
    """Streams of text, or questions, that are read side by side."""
    rate: float = 1.0
    """Learning rate: of plain SGD, in question answering of Adam."""
    average: float = 0.0
    """Part that an average of the weights, which is what is judged and kept, keeps of itself at every step; 0: none.
    In a sparse run of a language model it begins with the epochs in which survivors recover."""
    seed: int = 1
    """Of the first weights, of dropout, and of the order of questions."""
    precision: Precision = "float32"
    """Of products of matrices in training; bfloat16 is faster where a processor has it. All else stays float32."""

    taught: float = 0.5
    """Weight of the teacher in the loss, in runs that have one (--teacher); the labels have the rest."""
    temperature: float = 1.0
    """Scores of both models are divided by it before the teacher is compared with."""

    budget: str = ""
    """What the model may cost in the end: mult_adds=25%, weights=1e6, widths=50%; several of them, and floors=8 or
    round_to=4, separated by commas. A part is of the model that the run begins with. Empty: no budget."""
    warm_up: float = 0.2
    """To a budget: part of all steps in which the model keeps its full size, at the beginning."""
    shrink: float = 0.3
    """To a budget: part of all steps in which it shrinks after that; in the rest the survivors recover."""

    strength: float = 0.0
    """Weight of the penalty; 0 is none, and without a budget a dense run. With a budget, a number above 0 asks for a
    penalty while the model shrinks; how strong it is, is found by itself."""
    mode: Literal["loss", "gradient", "proximal"] = "loss"
    """loss: part of the loss, and clipped with it where there is clipping, as in the paper; gradient: added when the
    optimizer steps, after clipping; proximal: a step of its own after the optimizer's, by learning rate times
    strength."""
    scope: str = "recurrent"
    """Which widths are learned. recurrent: those of the recurrent layers; all: those of vectors of words and
    characters too; modelling: the six of the paper's question answering (modelling and output)."""
    by_cost: bool = False
    """Weigh the penalty of a layer by the root of what goes with one component: mult-adds, in question answering
    weights; the dearest has 1."""
    threshold: float = 1e-4
    """Weights of smaller magnitude become zero after every step; in question answering those of all layers from the
    contextual LSTM on."""
    group_threshold: float = 0.0
    """Groups of smaller norm become zero as a whole after every step."""
    ramp: float = 0.0
    """Epochs (in question answering steps) over which the strength rises from zero."""
    penalised: int = 0
    """Epochs (in question answering steps) with the whole penalty; in the rest, if there are more, the survivors
    recover. 0: all of them. A budget has warm_up and shrink instead."""
    afterwards: float = 0.0
    """Part of the strength that stays on while they recover, to keep the model from learning by heart."""
    compact: int = 0
    """Steps from one removal of the dead to the next; 0: only at the end."""

    def __post_init__(self) -> None:
        check_at_least_one(self, "batch")
        check_positive(self, "rate", "temperature")
        check_not_negative(
            self, "strength", "threshold", "group_threshold", "ramp", "penalised", "afterwards", "compact"
        )
        if not 0 < self.keep <= 1:
            raise ConfigError(f"keep is {self.keep}. Give a probability above 0; 1 is no dropout.")
        if not 0 <= self.taught <= 1:
            raise ConfigError(f"taught is {self.taught}. Give the teacher's part of the loss, from 0 to 1.")
        if not 0 <= self.average < 1:
            raise ConfigError(f"average is {self.average}. Give a part below 1; 0 is no average.")

    @property
    def sparse(self) -> bool:
        """Whether components are to go while training."""
        return self.strength > 0 or bool(self.budget)

    @property
    def penalty_in_loss(self) -> bool:
        """Whether the loop adds the penalty to its loss."""
        return self.strength > 0 and self.mode == "loss"

    def aim(self) -> tuple[leanrnn.Budget, leanrnn.Course]:
        """The budget, and when components go; :class:`~leanrnn.errors.BudgetError` if they are none. ::

        budget, course = config.aim()
        """
        texts = self.budget.split(",")
        if any(text.partition("=")[0].strip() == "milliseconds" for text in texts):
            raise ConfigError(
                "a run cannot have a budget of milliseconds: they are another number each time, and it could not be "
                "gone on with. Give mult_adds or weights, or cut the trained model with leanrnn shrink --budget."
            )
        return leanrnn.Budget.parse(texts), leanrnn.Course(warm_up=self.warm_up, shrink=self.shrink)

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` reads it back."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The settings of a run folder, or of a TOML file."""
        return changed(cls(), data, "these settings")


def check_at_least_one(config: SparseSettings, *names: str) -> None:
    """Refuse counts of nothing."""
    for name in names:
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is {getattr(config, name)}. Give at least 1.")


def check_not_negative(config: SparseSettings, *names: str) -> None:
    """Refuse what is below zero, infinite, or no number."""
    for name in names:
        if not 0 <= getattr(config, name) < math.inf:
            raise ConfigError(f"{name} is {getattr(config, name)}. Give 0 or a positive number.")


def check_positive(config: SparseSettings, *names: str) -> None:
    """The same, and zero."""
    for name in names:
        if not 0 < getattr(config, name) < math.inf:
            raise ConfigError(f"{name} is {getattr(config, name)}. Give a positive number.")
