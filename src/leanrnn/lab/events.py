"""What a training loop tells while it runs: a line of the metrics, and what to show of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leanrnn.errors import RunError

__all__ = ["Answered", "Epoch", "Evaluation", "Interval", "check_finite", "course"]


class Epochs(Protocol):
    """Settings of a run that is counted in epochs."""

    @property
    def epochs(self) -> int: ...


class Steps(Protocol):
    """Settings of a run that is counted in steps."""

    @property
    def steps(self) -> int: ...


class InSteps:
    """Knows how far a run has come that is counted in steps."""

    step: int

    def part(self, config: Steps) -> tuple[float, str]:
        """How much of the run is done, and what to say of it."""
        return self.step / config.steps, f"step {self.step} of {config.steps}  {self.told()}"

    def told(self) -> str:
        """What else."""
        return ""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some steps, of any model."""

    step: int
    loss: float
    """Of the training data: the mean over words, or over questions."""
    penalty: float
    strength: float
    widths: dict[str, int]
    alive: dict[str, int]
    phase: str = ""
    """To a budget: full size, shrinking or recovering."""
    used: dict[str, float] = field(default_factory=dict)
    """Of every limit of the budget, the part that the model takes."""

    def line(self, config: object) -> str:
        """Nothing to print: the bar moves."""
        return ""

    def told(self) -> str:
        """For the bar: the loss, and how far the model has shrunk."""
        units = f"{sum(self.alive.values())} of {sum(self.widths.values())} units alive" if self.strength else ""
        return "  ".join(filter(None, (f"loss {self.loss:.3f}", course(self.phase, self.used) or units)))


@dataclass(frozen=True, kw_only=True)
class Interval(Part):
    """A tenth of an epoch of a language model."""

    epoch: float
    tokens_per_second: float

    def part(self, config: Epochs) -> tuple[float, str]:
        """How much of the run is done, and what to say of it."""
        return self.epoch / config.epochs, f"epoch {self.epoch:.1f} of {config.epochs}  {self.told()}"


@dataclass(frozen=True, kw_only=True)
class Answered(Part, InSteps):
    """Some steps of question answering."""

    examples_per_second: float


@dataclass(frozen=True)
class Epoch:
    """A whole epoch of a language model."""

    epoch: int
    step: int
    rate: float
    train: float
    """Perplexity of the training text, as it was while training."""
    valid: float
    """Perplexity of the validation text."""
    widths: dict[str, int]
    alive: dict[str, int]
    seconds: float
    """Of training, without validation."""
    phase: str = ""
    """To a budget: full size, shrinking or recovering."""
    used: dict[str, float] = field(default_factory=dict)
    """Of every limit of the budget, the part that the model takes."""

    def part(self, config: Epochs) -> tuple[float, str]:
        """How much of the run is done, and what to say of it."""
        return self.epoch / config.epochs, f"epoch {self.epoch} of {config.epochs}"

    def line(self, config: Epochs) -> str:
        """What to print."""
        return (
            f"epoch {self.epoch:>2} of {config.epochs}  validation {self.valid:8.2f}  training {self.train:8.2f}  "
            f"{_sizes(self)}  {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Evaluation(InSteps):
    """The development questions were answered."""

    step: int
    loss: float
    """Of the training questions since the last one."""
    exact: float
    f1: float
    widths: dict[str, int]
    alive: dict[str, int]
    seconds: float
    """Of training so far."""
    phase: str = ""
    used: dict[str, float] = field(default_factory=dict)
    """The same of a budget as in an epoch."""

    def line(self, config: Steps) -> str:
        """What to print."""
        return (
            f"step {self.step:>5} of {config.steps}  exact {self.exact:5.2f}  F1 {self.f1:5.2f}  loss {self.loss:.3f}  "
            f"{_sizes(self)}  {self.seconds:.0f} s"
        )


def _sizes(event: Epoch | Evaluation) -> str:
    living = "" if event.alive == event.widths else f", {' + '.join(map(str, event.alive.values()))} alive"
    far = course(event.phase, event.used)
    return f"widths {' + '.join(map(str, event.widths.values()))}{living}{far and f', {far}'}"


def course(phase: str, used: Mapping[str, float]) -> str:
    """How far a budget is, in words; nothing where there is none. ::

    course("shrinking", {"mult_adds": 2.31})  # shrinking, 231% of budget
    """
    return f"{phase}, {max(used.values()):.0%} of budget" if used else phase


def check_finite(losses: Sequence[float], step: int) -> None:
    """Stop a run whose loss is no number; ``step`` is that of the last of the losses."""
    for i, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise RunError(
                f"the loss of step {step - len(losses) + i + 1} is {loss}. The run stopped; its last checkpoint is "
                "older. Try a smaller learning rate, a smaller clip, or a ramp for the strength, in a new folder."
            )
