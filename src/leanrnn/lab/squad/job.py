"""Question answering in training: begun anew, from another run, or where it was left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

import leanrnn
from leanrnn.errors import CheckpointError, RunError
from leanrnn.lab.average import average_of
from leanrnn.lab.checkpoints import groups_in, latest, load_job, save_job
from leanrnn.lab.job import Job, sparsifier_for, start_file
from leanrnn.lab.ranks import ALONE, Ranks
from leanrnn.lab.runs import Run
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Inputs, Squad, Vocabulary
from leanrnn.lab.squad.glove import WIDTH
from leanrnn.lab.squad.model import CHARACTERS, BiDAF, initialise

__all__ = [
    "TASK",
    "SquadJob",
    "begun",
    "built",
    "example",
    "groups_for",
    "load",
    "resumed",
    "save",
    "teacher_from",
    "vocabulary_of",
]

TASK = "squad"
"""What a file of such a model says that it is of."""
THRESHOLDED = ("contextual.*", "attention.*", "modelling1.*", "modelling2.*", "start.*", "output.*", "end.*")
"""As in the source: everything behind the highway layers, biases too."""


@dataclass(kw_only=True)
class SquadJob(Job[BiDAF]):
    """A model in training and how far it has come; ``total`` is since the last evaluation."""

    NUMBERS: ClassVar[tuple[str, ...]] = (*Job.NUMBERS, "step", "course", "sizes")

    average: BiDAF
    step: int = 0
    course: list[float] = field(default_factory=list)
    """F1 at every evaluation."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Weights in a group of every layer when training began."""


def example(vocabulary: Vocabulary, batch: int = 2, tokens: int = 4, asked: int = 3) -> Inputs:
    """Inputs to run a model on, from the first word to the last; texts differ in length if there is room for it. ::

    leanrnn.discover(model, example(vocabulary))
    """
    generator = torch.Generator().manual_seed(0)
    found = []
    for length in (tokens, asked):
        words = torch.randint(1, len(vocabulary.words), (batch, length), generator=generator)
        words[0, 0] = len(vocabulary.words) - 1
        characters = torch.randint(len(vocabulary.characters) + 2, (batch, length, CHARACTERS), generator=generator)
        found += [words, characters]
    return found[0], found[1], found[2], found[3]


def begun(config: SquadConfig, data: Squad, start: Path | None, device: torch.device) -> SquadJob:
    """A new job: new weights, or those another run ended with."""
    torch.manual_seed(config.seed)
    vocabulary = data.vocabulary
    about = {"task": TASK, "config": config.to_json(), "vocabulary": vocabulary.to_json()}
    if start is None:
        model = built(config, vocabulary)
        initialise(model, data.glove, config.seed)
    else:
        path = start_file(start)
        model, about = load(path), leanrnn.about(path)
        if vocabulary_of(about) != vocabulary:
            raise RunError(f"the model in {start} knows other words. Start from a run on the same data.")
        model.dropout.p, model.characters.dropout.p = 1 - config.keep, 1 - config.keep_characters
    groups = groups_for(config, model, vocabulary) if config.sparse else None
    sizes = {layer.name: layer.group_size for layer in groups or ()}
    return _job(config, model, about, groups, sizes, device)


def resumed(config: SquadConfig, run: Run, device: torch.device, ranks: Ranks = ALONE) -> SquadJob | None:
    """The job of the last checkpoint, exactly as it was, if there is one."""
    if (saved := latest(run, ranks)) is None:
        return None
    model = load(saved.model)
    model.dropout.p, model.characters.dropout.p = saved.data["dropout"]
    groups, about = groups_in(saved, model), leanrnn.about(saved.model)
    if groups:
        groups.example = example(vocabulary_of(about))
    job = _job(config, model, about, groups, saved.data["sizes"], device)
    job.ranks, job.notes = ranks, run.notes
    load_job(job, saved, config.seed)
    return job


def teacher_from(path: Path, data: Squad, device: torch.device) -> leanrnn.Teacher:
    """The model of another run on the same data, of any widths."""
    file = start_file(path)
    model = load(file)
    if vocabulary_of(leanrnn.about(file)) != data.vocabulary:
        raise RunError(f"the model in {path} knows other words. A teacher has to be trained on the same data.")
    return leanrnn.Teacher(model.to(device), copy=False)


def save(job: SquadJob, run: Run) -> None:
    """Write a checkpoint of everything."""
    save_job(job, run, job.step, data={"dropout": [job.model.dropout.p, job.model.characters.dropout.p]})


def load(path: Path) -> BiDAF:
    """The model of a file that a run has written. ::

    model = load(Path("runs/mine/model.safetensors"))
    """
    said = leanrnn.about(path)
    if said.get("task") != TASK:
        raise CheckpointError(f"{path} is not of a question answering model that leanrnn has trained.")
    try:
        config, vocabulary = SquadConfig.from_json(said["config"]), vocabulary_of(said)
    except KeyError as error:
        raise CheckpointError(f"{path} does not say its {error}. Write it again with leanrnn train.") from error

    def factory() -> nn.Module:
        model = built(config, vocabulary)
        for module in model.modules():
            if isinstance(module, nn.LSTM):
                module.bias_hh_l0.requires_grad_(False)
        return model

    model = leanrnn.load(path, factory)
    assert isinstance(model, BiDAF)
    return model


def vocabulary_of(about: Mapping[str, Any]) -> Vocabulary:
    """The words that a file says it knows."""
    return Vocabulary.from_json(about["vocabulary"])


def groups_for(config: SquadConfig, model: BiDAF, vocabulary: Vocabulary) -> leanrnn.Groups:
    """The groups that are penalised: by default those of the six LSTMs behind the attention, as in the paper."""
    inputs = example(vocabulary)
    if config.scope == "modelling":
        return leanrnn.discover(model, inputs, exclude="contextual.*")
    return leanrnn.discover(model, inputs, scope="all" if config.scope == "all" else "recurrent")


def built(config: SquadConfig, vocabulary: Vocabulary) -> BiDAF:
    """A model as the configuration wants it."""
    return BiDAF(
        vocabulary.own, len(vocabulary.words) - vocabulary.own, len(vocabulary.characters) + 2, config.width,
        words_width=WIDTH, keep=config.keep, keep_characters=config.keep_characters,
    )  # fmt: skip


def _job(
    config: SquadConfig, model: BiDAF, about: dict[str, Any], groups: leanrnn.Groups | None, sizes: dict[str, int],
    device: torch.device,
) -> SquadJob:  # fmt: skip
    """A job at its first step; with groups it has a sparsifier."""
    model.to(device)
    # The vectors of GloVe never change: there need not be two of them.
    shared = {id(model.words.glove): model.words.glove} if config.scope != "all" else {}
    average = average_of(model, shared)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=config.rate)
    losses = torch.zeros(max(1, min(50, config.evaluate)), device=device)
    job = SquadJob(model=model, average=average, optimizer=optimizer, losses=losses, about=about, sizes=sizes)
    if groups:
        job.attach(_sparsifier(config, groups, sizes), copies=[average])
    return job


def _sparsifier(config: SquadConfig, groups: leanrnn.Groups, sizes: dict[str, int]) -> leanrnn.Sparsifier:
    element = leanrnn.ElementThreshold(config.threshold, parameters=THRESHOLDED, biases=True)
    return sparsifier_for(config, groups, element, sizes, steps=config.steps, ramp=config.ramp, until=config.penalised)
