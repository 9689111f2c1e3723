"""A language model in training: begun anew, from another run, or where it was left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

import leanrnn
from leanrnn.errors import RunError
from leanrnn.lab.average import average_of
from leanrnn.lab.checkpoints import groups_in, latest, load_job, save_job
from leanrnn.lab.job import Job, sparsifier_for, start_file
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.model import (
    LanguageModel,
    State,
    costs,
    detached,
    drops,
    language_model,
    load_language_model,
    parts_of,
    state_of,
)
from leanrnn.lab.language.text import Text
from leanrnn.lab.ranks import ALONE, Ranks
from leanrnn.lab.runs import Run

__all__ = ["LanguageJob", "begun", "example", "resumed", "save", "teacher_from"]

PARTS = "hc"
"""Of the state of a layer: hidden, and of an LSTM the cell's."""
STREAMS = 1
"""Axis of a state along which streams of text stand side by side."""


@dataclass(kw_only=True)
class LanguageJob(Job[LanguageModel]):
    """A model in training and how far it has come; ``seconds`` and ``total`` are of its epoch."""

    NUMBERS: ClassVar[tuple[str, ...]] = (*Job.NUMBERS, "epoch", "window", "spent", "valid")

    state: State | None = None
    """Carried from window to window; none at the start of an epoch."""
    teacher_state: State | None = None
    """The teacher's, which reads the same words."""
    epoch: int = 0
    window: int = 0
    """Windows of the epoch that are done."""
    spent: float = 0.0
    """Seconds of all epochs before."""
    valid: list[float] = field(default_factory=list)
    """Perplexity of the validation text after every epoch."""

    def taught(self, words: Tensor) -> Tensor:
        """What the teacher says comes after these words, which follow those it read last."""
        assert self.teacher is not None
        scores: Tensor
        scores, state = self.teacher(words, self.teacher_state)
        self.teacher_state = detached(state)
        return scores

    def begin_average(self) -> None:
        """From now on there is one; what is cut out of the model is cut out of it."""
        self.average = average_of(self.model)
        if self.sparsifier:
            self.sparsifier.copies.append(self.average)


def begun(config: Config, text: Text, per_epoch: int, start: Path | None, device: torch.device) -> LanguageJob:
    """A new job: new weights, or those another run ended with, cut to ``keep_widths`` if there are any."""
    about = {"config": config.to_json(), "words": list(text.words)}
    if start is None:
        if config.keep_widths:
            raise RunError("keep_widths cuts a trained model. Name the run to start from with --start.")
        model = language_model(config, len(text.words))
        return _job(config, model, about, per_epoch, _groups(config, model), device)
    path = start_file(start)
    model, about = load_language_model(path), leanrnn.about(path)
    if about["words"] != list(text.words):
        raise RunError(f"the model in {start} was trained on other words. Start from a run on the same text.")
    if config.keep_widths:
        if len(config.keep_widths) != len(model.widths):
            raise RunError(f"keep_widths has {len(config.keep_widths)} widths for {len(model.widths)} layers.")
        kept = dict(zip(model.layer_names, config.keep_widths, strict=True))
        small = leanrnn.shrink(model, leanrnn.discover(model, example()), keep_widths=kept)
        assert isinstance(small, LanguageModel)
        model = small
    model.drops = drops(config)
    return _job(config, model, about, per_epoch, _groups(config, model), device)


def resumed(config: Config, run: Run, per_epoch: int, device: torch.device, ranks: Ranks = ALONE) -> LanguageJob | None:
    """The job of the last checkpoint, exactly as it was, if there is one."""
    if (saved := latest(run, ranks)) is None:
        return None
    model = load_language_model(saved.model)
    model.drops = saved.data["dropout"]
    job = _job(config, model, leanrnn.about(saved.model), per_epoch, groups_in(saved, model), device)
    job.ranks, job.notes = ranks, run.notes
    if saved.data.get("averaged"):
        job.begin_average()
    tensors = load_job(job, saved, config.seed)
    job.state = _state_in(tensors, "state", saved.data["layers"], ranks)
    job.teacher_state = _state_in(tensors, "teacher", saved.data.get("teacher_layers", 0), ranks)
    return job


def teacher_from(path: Path, text: Text, device: torch.device) -> leanrnn.Teacher:
    """The language model of another run, for the same words; of any cell and width."""
    file = start_file(path)
    if leanrnn.about(file)["words"] != list(text.words):
        raise RunError(f"the model in {path} was trained on other words. A teacher has to know the same ones.")
    return leanrnn.Teacher(load_language_model(file).to(device), copy=False)


def save(job: LanguageJob, run: Run, step: int) -> None:
    """Write a checkpoint of everything."""
    states = {**_tensors_of(job.state, "state"), **_tensors_of(job.teacher_state, "teacher")}
    tensors = {name: job.ranks.gathered(tensor, STREAMS) for name, tensor in states.items()}
    data = {
        "layers": len(job.state or ()),
        "teacher_layers": len(job.teacher_state or ()),
        "averaged": job.average is not None,
        "dropout": job.model.drops,
    }
    save_job(job, run, step, tensors=tensors, data=data)


def _tensors_of(state: State | None, name: str) -> dict[str, Tensor]:
    """A recurrent state by the names it has in a checkpoint."""
    parts = [zip(PARTS, parts_of(layer), strict=False) for layer in state or ()]
    return {f"{name}.{i}.{part}": tensor for i, layer in enumerate(parts) for part, tensor in layer}


def _state_in(tensors: dict[str, Tensor], name: str, layers: int, ranks: Ranks) -> State | None:
    """The reverse of it, for the streams that this process reads."""
    named = [[f"{name}.{i}.{part}" for part in PARTS] for i in range(layers)]
    parts = [[ranks.share(tensors[each], STREAMS) for each in names if each in tensors] for names in named]
    return [state_of([part.clone() for part in each]) for each in parts] or None


def example() -> Tensor:
    """Words to run a model on: three of them in two streams."""
    return torch.zeros(3, 2, dtype=torch.long)


def _job(
    config: Config,
    model: LanguageModel,
    about: dict[str, Any],
    per_epoch: int,
    groups: leanrnn.Groups | None,
    device: torch.device,
) -> LanguageJob:
    """A job at its first step; with groups it has a sparsifier."""
    model.to(device)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=config.rate)
    losses = torch.zeros(max(1, per_epoch // 10), device=device)
    job = LanguageJob(model=model, optimizer=optimizer, losses=losses, about=about)
    if groups:
        job.attach(_sparsifier(config, groups, per_epoch, len(about["words"])))
    return job


def _groups(config: Config, model: LanguageModel) -> leanrnn.Groups | None:
    return leanrnn.discover(model, example(), scope=config.scope) if config.sparse else None


def _sparsifier(config: Config, groups: leanrnn.Groups, per_epoch: int, words: int) -> leanrnn.Sparsifier:
    touched = ["*"] if config.everywhere else None
    element = leanrnn.ElementThreshold(config.threshold, parameters=touched, biases=config.everywhere)
    # The paper's l1: of everything but the embedding, biases too.
    l1 = leanrnn.L1(groups, parameters=["layers.*", "head.*"], biases=True) if config.penalty == "l1" else None
    return sparsifier_for(
        config,
        groups,
        element,
        costs(config, words),
        steps=config.epochs * per_epoch,
        ramp=round(config.ramp * per_epoch),
        until=config.penalised * per_epoch if config.afterwards else 0,  # without a rest, the penalty goes altogether
        penalty=l1,
    )
