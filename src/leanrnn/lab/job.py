"""What surrounds a training loop, whatever it trains: a model with its optimizer, penalty and average, and the numbers
that go with them. The loops themselves are the tasks' own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.lab.events import check_finite
from leanrnn.lab.notes import noted
from leanrnn.lab.phase import towards
from leanrnn.lab.ranks import ALONE, Ranks
from leanrnn.lab.sparse_settings import SparseSettings

__all__ = ["Job", "Tally", "judging", "sparsifier_for", "start_file"]

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Tally:
    """What there is to tell of the steps since the last interval."""

    loss: float
    """Mean of the steps."""
    seconds: float
    """That they took."""
    penalty: float
    strength: float
    alive: dict[str, int]
    """Components that are not dead, of every layer with a penalty."""
    towards: dict[str, Any] = field(default_factory=dict)
    """How far a budget is, as :func:`~leanrnn.lab.phase.towards` has it."""


@dataclass(kw_only=True)
class Job(Generic[Model]):
    """A model in training. A task adds what its own loop counts, and names it in ``NUMBERS``. ::

    class LanguageJob(Job[LanguageModel]): ...
    """

    NUMBERS: ClassVar[tuple[str, ...]] = ("total", "seconds", "mark", "difference")
    """Attributes of plain data, which a checkpoint holds as they are."""

    model: Model
    optimizer: torch.optim.Optimizer
    losses: Tensor
    """Of the steps of this interval, so that a step never waits for a number."""
    about: dict[str, Any]
    """What a file of the model says of itself."""
    sparsifier: leanrnn.Sparsifier | None = None
    teacher: leanrnn.Teacher | None = None
    """What is asked beside the labels, if anything."""
    average: Model | None = None
    """Its weights, averaged over the last steps."""
    scores: Callable[[Model], Tensor] | None = None
    """Of some inputs, without dropout: when dead components go, they have to stay what they are."""
    narrower: bool = False
    """Whether components have gone; the loop says when it has taken note."""
    total: float = 0.0
    """Sum of the losses since the last evaluation, up to the last interval."""
    seconds: float = 0.0
    """Of training."""
    mark: float = 0.0
    """The same at the last interval."""
    difference: float = 0.0
    """The largest there was between the scores of the model with dead components and without them, when they went."""

    notes: list[str] = field(default_factory=list)
    """What a user should know of the run."""
    ranks: Ranks = ALONE
    """The processes that train it."""
    _replica: nn.Module | None = None
    _scored: Tensor | None = None

    @property
    def replica(self) -> nn.Module:
        """What is trained: the model, or one with gradients averaged over all processes. After a cut it is another."""
        if self._replica is None:
            self._replica = self.ranks.wrapped(self.model)
        return self._replica

    @property
    def judged(self) -> Model:
        """What is evaluated, and in the end kept: the average, if there is one."""
        return self.model if self.average is None else self.average

    @property
    def alive(self) -> dict[str, int]:
        """Components that are not dead, of every layer with a penalty."""
        return {layer.name: layer.alive for layer in self.sparsifier.status().layers} if self.sparsifier else {}

    def tally(self, config: SparseSettings, losses: list[float], step: int) -> Tally:
        """Close an interval whose losses these are; ``step`` is that of the last one."""
        check_finite(losses, step)
        self.total += sum(losses)
        spent, self.mark = self.seconds - self.mark, self.seconds
        mean = sum(losses) / len(losses)
        if self.sparsifier is None:
            return Tally(mean, spent, 0.0, 0.0, {})
        status = self.sparsifier.status()
        living = {layer.name: layer.alive for layer in status.layers}
        return Tally(mean, spent, status.penalty, status.strength, living, towards(status.progress, config))

    def attach(self, sparsifier: leanrnn.Sparsifier, copies: Sequence[nn.Module] = ()) -> None:
        """Let it act in the steps of the optimizer, and take note of what it cuts out there."""
        self.sparsifier = sparsifier.attach(
            self.optimizer, copies=copies, before=self._before_cut, after=lambda _: self._after_cut()
        )

    def compact(self) -> None:
        """Cut what is dead out of model, optimizer and average."""
        assert self.sparsifier is not None
        if all(layer.alive == layer.width for layer in self.sparsifier.status().layers):
            return
        self._before_cut()
        with noted(self.notes):
            if self.sparsifier.compact():
                self._after_cut()

    def _before_cut(self) -> None:
        self._scored = self.scores(self.model) if self.scores else None

    def _after_cut(self) -> None:
        self.narrower, self._replica = True, None
        if self.scores and self._scored is not None:
            self.note_difference(self._scored, self.scores(self.model))

    def towards(self, config: SparseSettings) -> dict[str, Any]:
        """How far a budget is, as fields of an event."""
        return towards(self.sparsifier.status().progress, config) if self.sparsifier else {}

    def note_difference(self, before: Tensor, after: Tensor) -> None:
        """The scores of a model with dead components, and without them."""
        self.difference = max(self.difference, float((after - before).abs().max()))


@contextmanager
def judging(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients, and afterwards as it was. ::

    with judging(model):
        scores = model(words)
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def sparsifier_for(
    config: SparseSettings,
    groups: leanrnn.Groups,
    element: leanrnn.ElementThreshold,
    costs: Mapping[str, float],
    *,
    steps: int,
    ramp: int,
    until: int,
    penalty: leanrnn.L1 | None = None,
) -> leanrnn.Sparsifier:
    """What the settings ask for. ``element`` is the threshold of single weights; ``costs`` say what a component of
    every layer costs; the whole training has so many ``steps``; in ``ramp`` steps the strength rises, after ``until``
    steps (0: never) a part of it stays. ::

        job.attach(sparsifier_for(config, groups, element, costs, steps=5000, ramp=100, until=0))
    """
    if config.budget and not config.strength:
        budget, course = config.aim()
        return leanrnn.Sparsifier(groups, budget=budget, steps=steps, course=course)
    thresholds: list[Any] = [element]
    if config.group_threshold:
        thresholds.append(leanrnn.GroupThreshold(config.group_threshold))
    acts: leanrnn.L1 | leanrnn.GroupLasso | None = penalty
    if acts is None:
        dear = max(costs.values())
        weights = {name: (costs[name] / dear) ** 0.5 for name in groups.names} if config.by_cost else None
        acts = leanrnn.GroupLasso(groups, weights=weights)
    if config.budget:
        budget, course = config.aim()
        return leanrnn.Sparsifier(
            groups, budget=budget, steps=steps, course=course, threshold=thresholds, penalty=acts, mode=config.mode
        )
    strength: Any = leanrnn.linear_ramp(config.strength, ramp) if ramp else config.strength
    if until:
        strength = leanrnn.off_from(strength, until, left=config.afterwards)
    return leanrnn.Sparsifier(groups, strength=strength, threshold=thresholds, penalty=acts, mode=config.mode)


def start_file(start: Path) -> Path:
    """The file of a model to begin with: itself, or that of the run in a folder."""
    return start / "model.safetensors" if start.is_dir() else start
