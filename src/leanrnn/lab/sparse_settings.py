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
    """Probability that dropout keeps a number: between the layers, before the first and after the last. In question
    answering: before every score and every LSTM but the one that reads the text."""
    batch: int = 20
    """Streams of text, or questions, in a batch."""
    rate: float = 1.0
    """Learning rate of SGD; in question answering, of Adam."""
    average: float = 0.0
    """Decay of an exponential average of the weights, which is then evaluated and saved; 0: no average. In a sparse run
    of a language model it starts with the recovery."""
    seed: int = 1
    """Seed of the first weights, of dropout, and of the order of questions."""
    precision: Precision = "float32"
    """Precision of matrix products in training. bfloat16 is faster on processors that have it."""

    taught: float = 0.5
    """Weight of the teacher in the loss, in runs that have one (--teacher); the labels have the rest."""
    temperature: float = 1.0
    """Divides the scores of both models before they are compared."""

    budget: str = ""
    """What the model may cost in the end: mult_adds=25%, weights=1e6 or widths=50%. You can give several limits, and
    floors=8 or round_to=4, separated by commas. Percentages are of the model the run begins with. Empty: no budget."""
    warm_up: float = 0.2
    """With a budget: part of all steps, at the beginning, in which the model keeps its full size."""
    shrink: float = 0.3
    """With a budget: part of all steps after that in which the model shrinks. In the rest it recovers."""

    strength: float = 0.0
    """Weight of the penalty; 0: no penalty. With a budget, any number above 0 adds a penalty while the model shrinks,
    whose weight is adjusted automatically."""
    mode: Literal["loss", "gradient", "proximal"] = "loss"
    """How the penalty acts. loss: as a part of the loss, as in the paper (clipping applies to it); gradient: added to
    the gradient after clipping; proximal: as a separate step after the optimizer's."""
    scope: str = "recurrent"
    """Which widths may shrink. recurrent: the recurrent layers; all: embeddings too; modelling: the paper's six LSTMs
    of question answering (modelling and output)."""
    by_cost: bool = False
    """Weigh the penalty of each layer by the square root of what one component costs: mult-adds, or in question
    answering weights. The most expensive layer has weight 1."""
    threshold: float = 1e-4
    """Weights of smaller magnitude are set to zero after every step; in question answering only from the contextual
    LSTM on."""
    group_threshold: float = 0.0
    """Groups with a smaller norm are set to zero after every step."""
    ramp: float = 0.0
    """Epochs (in question answering: steps) over which the strength rises from zero."""
    penalised: int = 0
    """Epochs (in question answering: steps) with the whole penalty; in the rest the model recovers. 0: all of them.
    With a budget, use warm_up and shrink instead."""
    afterwards: float = 0.0
    """Part of the strength that remains during the recovery, against overfitting."""
    compact: int = 0
    """Steps between removals of dead components; 0: remove them only at the end."""

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
                "a run cannot have a budget of milliseconds: they differ each time, so the run could not be resumed. "
                "Give mult_adds or weights, or cut the trained model with leanrnn shrink --budget."
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
