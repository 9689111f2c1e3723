"""What the arms do besides training: cut at once, penalise, and what other ways to a smaller model there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

import torch
from torch.nn.functional import cross_entropy

import leanrnn
from benchmarks.pays.cases import example
from benchmarks.pays.train import Method, Task
from leanrnn.lab.language.model import LanguageModel, State, detached
from leanrnn.lab.language.text import windows

__all__ = ["CutAtOnce", "Gradual", "Lean", "Paper"]

READINGS = 60  # windows from which it is read what a trained model can do without


class CutAtOnce(Method):
    """Half of the epochs dense, then cut to the budget, then the rest."""

    def __init__(self, task: Task, by: Literal["norm", "saliency", "refit"]) -> None:
        self.task, self.by = task, by

    def epoch(self, model: LanguageModel, epoch: int) -> LanguageModel:
        """When half of the epochs are over."""
        if epoch != self.task.case.config.epochs // 2:
            return model
        groups = leanrnn.discover(model, example())
        if self.by == "refit":
            fitted = leanrnn.refit(model, groups, self._inputs(model), budget=self.task.case.budget)
            assert isinstance(fitted, LanguageModel)
            return fitted
        scores = self._saliency(model, groups) if self.by == "saliency" else None
        small = leanrnn.shrink(model, groups, budget=self.task.case.budget, scores=scores)
        assert isinstance(small, LanguageModel)
        return small

    @torch.no_grad()
    def _inputs(self, model: LanguageModel) -> Iterator[tuple[torch.Tensor, State]]:
        """The beginning of the training text, every window with the state that the ones before it end in."""
        state = model.first_state(self.task.case.config.batch)
        model.eval()
        for words, _ in islice(windows(self.task.rows, self.task.case.config.window), READINGS):
            yield words, state
            state = detached(model(words, state)[1])

    def _saliency(self, model: LanguageModel, groups: leanrnn.Groups) -> dict[str, torch.Tensor]:
        """From the beginning of the training text, without dropout."""
        saliency, state = leanrnn.Saliency(groups), None
        model.eval()
        for words, wanted in islice(windows(self.task.rows, self.task.case.config.window), READINGS):
            scores, state = model(words, state)
            model.zero_grad()
            cross_entropy(scores.flatten(0, 1), wanted.flatten()).backward()  # type: ignore[no-untyped-call]
            saliency.update()
            state = detached(state)
        return saliency.scores()


class _WithSparsifier(Method):
    """Acts from inside the optimizer's step; what it removes goes from the model and from the state as well."""

    sparsifier: leanrnn.Sparsifier

    def after_step(self, state: State) -> State:
        """The state loses what the model has lost."""
        named = zip(state, self.sparsifier.groups.names, strict=True)
        return [self.sparsifier.cut_state(each, layer=name) for each, name in named]


class Gradual(_WithSparsifier):
    """What leanrnn does with a budget: components are chosen, faded and cut out in the course of the training."""

    def __init__(self, task: Task, course: leanrnn.Course | None = None) -> None:
        self.task, self.course = task, course

    def attach(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """From the first step on; it cuts by itself."""
        groups, case = leanrnn.discover(model, example()), self.task.case
        self.sparsifier = leanrnn.Sparsifier(groups, budget=case.budget, steps=self.task.steps, course=self.course)
        self.sparsifier.attach(optimizer)


class Paper(_WithSparsifier):
    """Group lasso as in the paper: part of the loss in all epochs, and single weights below 1e-4 become zero."""

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def attach(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """What is dead goes every 100 steps, which changes nothing but the time."""
        groups = leanrnn.discover(model, example())
        zero = leanrnn.ElementThreshold(1e-4, parameters=["*"], biases=True)
        sparsifier = leanrnn.Sparsifier(groups, strength=self.strength, threshold=zero, mode="loss")
        self.sparsifier = sparsifier.attach(optimizer)
        self.sparsifier.compact(every=100)

    def penalty(self) -> torch.Tensor | None:
        """It is part of the loss."""
        return self.sparsifier.loss()

    def finish(self, model: LanguageModel) -> LanguageModel:
        """The last ones."""
        self.sparsifier.compact()
        return model


class Lean(_WithSparsifier):
    """Group lasso as leanrnn's recipes have it: proximal, groups die as a whole, and after two epochs what is left
    recovers."""

    PENALISED = 2
    """Epochs."""

    def __init__(self, task: Task, strength: float) -> None:
        self.task, self.strength = task, strength

    def attach(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """The strength rises over a fifth of an epoch."""
        groups = leanrnn.discover(model, example())
        ramp = leanrnn.linear_ramp(self.strength, self.task.per_epoch // 5)
        dead = [leanrnn.ElementThreshold(1e-4), leanrnn.GroupThreshold(0.05)]
        self.sparsifier = leanrnn.Sparsifier(groups, strength=ramp, threshold=dead, mode="proximal").attach(optimizer)
        self.sparsifier.compact(every=50)

    def epoch(self, model: LanguageModel, epoch: int) -> LanguageModel:
        """The penalty ends."""
        if epoch == self.PENALISED:
            self.sparsifier.compact()
            self.sparsifier.detach()
        return model
