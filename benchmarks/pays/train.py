"""The one training loop of all arms. Read it from top to bottom: an arm that does more than train says so in a
:class:`Method`, which is asked where it matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import leanrnn
from benchmarks.pays.cases import Case, Settings
from leanrnn.lab.language.model import LanguageModel, State, detached
from leanrnn.lab.language.perplexity import perplexity
from leanrnn.lab.language.text import Text, streams, windows
from leanrnn.layers import quick

__all__ = ["Method", "Task", "Trained", "train"]

BEHIND = {1 / 3: 1.1, 2 / 3: 1.04}  # of the best run so far, once this part of the epochs is over


@dataclass(frozen=True)
class Task:
    """What a run is about; ``taught`` has the teacher's answers to every window, if there is a teacher."""

    case: Case
    settings: Settings
    text: Text
    taught: Sequence[leanrnn.SoftTargets] = ()
    best: Sequence[float] = ()
    """Perplexities of the validation text in the best run so far of the same arm, if this one is to beat it."""
    told: Callable[[str], object] = print

    @property
    def rows(self) -> Tensor:
        """The training text, side by side."""
        return streams(self.text.train, self.case.config.batch)

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return (len(self.rows) - 1) // self.case.config.window

    def hopeless(self, valid: Sequence[float]) -> bool:
        """Whether a run is so far behind the best one of its arm that it cannot overtake it."""
        done, epochs = len(valid), self.case.config.epochs
        allowed = [factor for part, factor in BEHIND.items() if done >= part * epochs]
        return bool(allowed) and done <= len(self.best) and valid[-1] > min(allowed) * self.best[done - 1]

    @property
    def steps(self) -> int:
        """Steps of a whole run."""
        return self.case.config.epochs * self.per_epoch


@dataclass
class Trained:
    """How far a run is: its model, the perplexity of the validation text after every epoch, seconds of the
    processor."""

    model: LanguageModel
    valid: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Method:
    """What an arm does besides training: nothing, here."""

    def epoch(self, model: LanguageModel, epoch: int) -> LanguageModel:
        """Asked when an epoch begins, counted from 0; may hand back another model, to go on with."""
        return model

    def attach(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """Asked once a model has an optimizer."""

    def before_forward(self) -> None:
        """Asked before the model is called."""

    def penalty(self) -> Tensor | None:
        """Asked for what is to be added to the loss."""
        return None

    def before_step(self) -> None:
        """Asked between the backward pass and clipping."""

    def after_step(self, state: State) -> State:
        """Asked after every step; hands back the state that is carried on."""
        return state

    def finish(self, model: LanguageModel) -> LanguageModel:
        """Asked in the end, for a model without anything that is dead."""
        return model


def train(task: Task, method: Method, begun: Trained, until: int | None = None) -> Trained:
    """From where ``begun`` is up to an epoch, the last by default. The rate is constant in the first half of all
    epochs, then falls in a line; dropout and data depend on seed and epoch alone."""
    config, model = task.case.config_of(task.settings), begun.model
    optimizer: torch.optim.Optimizer | None = None
    for epoch in range(len(begun.valid), until or config.epochs):
        if task.hopeless(begun.valid):
            break
        torch.manual_seed(config.seed * 1_000_003 + epoch)
        began = time.process_time()
        before, model = model, method.epoch(model, epoch)
        model.train()
        if optimizer is None or model is not before:
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=config.rate)
            method.attach(model, optimizer)
        for group in optimizer.param_groups:
            group["lr"] = config.rate_at(epoch)
        state: State | None = None
        for i, (words, wanted) in enumerate(windows(task.rows, config.window)):
            method.before_forward()
            with quick():
                scores, state = model(words, state)
            # The sum over the window, the mean over the streams.
            loss = cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="sum") / config.batch
            if task.taught:
                distance = leanrnn.distil(scores, task.taught[i], reduction="sum") / config.batch
                loss = (1 - config.taught) * loss + config.taught * distance
            penalty = method.penalty()
            optimizer.zero_grad()
            (loss if penalty is None else loss + penalty).backward()  # type: ignore[no-untyped-call]
            method.before_step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            state = method.after_step(detached(state))
        if epoch == config.epochs - 1:
            model = method.finish(model)
        begun.seconds += time.process_time() - began
        begun.valid.append(perplexity(model, task.text.valid, config.batch, config.window))
        task.told(f"  epoch {epoch + 1}: {begun.valid[-1]:.2f}, {model.widths}, {begun.seconds:.0f} s")
    begun.model = model
    return begun
