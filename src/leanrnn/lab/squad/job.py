"""What changes while training, all of which a checkpoint holds; begun anew, from another run, or where it was left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import CheckpointError, RunError
from leanrnn.lab.average import average_of, put_back_, stored
from leanrnn.lab.language.job import packed, unpacked
from leanrnn.lab.runs import Run
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Inputs, Squad, Vocabulary
from leanrnn.lab.squad.glove import WIDTH
from leanrnn.lab.squad.model import CHARACTERS, BiDAF, initialise

__all__ = ["TASK", "Job", "begun", "example", "found_groups", "load", "resumed", "saved", "vocabulary_of"]

TASK = "squad"
"""What a file of such a model says that it is of."""
NUMBERS = ("step", "seconds", "mark", "total", "difference", "course", "sizes")
THRESHOLDED = ("contextual.*", "attention.*", "modelling1.*", "modelling2.*", "start.*", "output.*", "end.*")
"""As in the source: everything behind the highway layers, biases too."""


@dataclass
class Job:
    """A model in training and how far it has come."""

    model: BiDAF
    average: BiDAF
    """Its weights, averaged over the last steps: what answers."""
    optimizer: torch.optim.Optimizer
    losses: Tensor
    """Of the steps of this interval, so that a step never waits for a number."""
    about: dict[str, Any]
    """What a file of the model says of itself."""
    sparsifier: leanrnn.Sparsifier | None = None
    step: int = 0
    seconds: float = 0.0
    """Of training."""
    mark: float = 0.0
    """The same at the last interval."""
    total: float = 0.0
    """Sum of the losses since the last evaluation, up to the last interval."""
    difference: float = 0.0
    """The largest there was between the scores of the model with dead components and without them, when they went."""
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


def begun(config: SquadConfig, data: Squad, start: Path | None, device: torch.device) -> Job:
    """A new job: new weights, or those another run ended with."""
    torch.manual_seed(config.seed)
    vocabulary = data.vocabulary
    about = {"task": TASK, "config": config.to_json(), "vocabulary": vocabulary.to_json()}
    if start is None:
        model = _built(config, vocabulary)
        initialise(model, data.glove, config.seed)
    else:
        path = start / "model.safetensors" if start.is_dir() else start
        model, about = load(path), leanrnn.about(path)
        if vocabulary_of(about) != vocabulary:
            raise RunError(f"the model in {start} knows other words. Start from a run on the same data.")
        model.dropout.p, model.characters.dropout.p = 1 - config.keep, 1 - config.keep_characters
    groups = found_groups(config, model, vocabulary) if config.sparse else None
    sizes = {layer.name: layer.group_size for layer in groups or ()}
    return _job(config, model, about, groups, sizes, device)


def resumed(config: SquadConfig, run: Run, device: torch.device) -> Job | None:
    """The job of the last checkpoint, exactly as it was, if there is one."""
    if (found := run.latest()) is None:
        return None
    data, tensors = found.data, {name: tensor.to(device) for name, tensor in found.tensors.items()}
    model = load(found.model)
    model.dropout.p, model.characters.dropout.p = data["dropout"]
    groups = leanrnn.Groups.from_json(data["groups"], model) if data["groups"] else None
    job = _job(config, model, leanrnn.about(found.model), groups, data["sizes"], device)
    if job.sparsifier and groups:
        groups.example = example(vocabulary_of(job.about))
        job.sparsifier.load_state_dict(data["sparsifier"])
    for name in NUMBERS:
        setattr(job, name, data[name])
    job.optimizer.load_state_dict(packed(data["optimizer"], tensors))
    job.losses = tensors["losses"].clone()
    put_back_(job.average, tensors)
    torch.set_rng_state(found.tensors["random"])
    if "random_there" in tensors:
        torch.get_device_module(device).set_rng_state(found.tensors["random_there"])
    return job


def saved(job: Job, run: Run) -> None:
    """Write a checkpoint of everything."""
    tensors = {"losses": job.losses, "random": torch.get_rng_state()}
    if (device := job.losses.device).type != "cpu":  # dropout there has a state of its own
        tensors["random_there"] = torch.get_device_module(device).get_rng_state()
    tensors |= stored(job.average)
    data = {
        **{name: getattr(job, name) for name in NUMBERS},
        "dropout": [job.model.dropout.p, job.model.characters.dropout.p],
        "optimizer": unpacked(job.optimizer.state_dict(), tensors),
        "sparsifier": job.sparsifier.state_dict() if job.sparsifier else None,
        "groups": job.sparsifier.groups.to_json() if job.sparsifier else None,
    }
    run.save(job.step, job.model, tensors, data, job.about)


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
        model = _built(config, vocabulary)
        for module in model.modules():
            if isinstance(module, nn.LSTM):
                module.bias_hh_l0.requires_grad_(False)
        return model

    model = leanrnn.load(path, factory)
    assert isinstance(model, BiDAF)
    return model


def vocabulary_of(about: dict[str, Any]) -> Vocabulary:
    """The words that a file says it knows."""
    return Vocabulary.from_json(about["vocabulary"])


def found_groups(config: SquadConfig, model: BiDAF, vocabulary: Vocabulary) -> leanrnn.Groups:
    """The groups that are penalised: by default those of the six LSTMs behind the attention, as in the paper."""
    inputs = example(vocabulary)
    if config.scope == "modelling":
        return leanrnn.discover(model, inputs, exclude="contextual.*")
    return leanrnn.discover(model, inputs, scope="all" if config.scope == "all" else "recurrent")


def _built(config: SquadConfig, vocabulary: Vocabulary) -> BiDAF:
    return BiDAF(
        vocabulary.own, len(vocabulary.words) - vocabulary.own, len(vocabulary.characters) + 2, config.width,
        words_width=WIDTH, keep=config.keep, keep_characters=config.keep_characters,
    )  # fmt: skip


def _job(
    config: SquadConfig, model: BiDAF, about: dict[str, Any], groups: leanrnn.Groups | None, sizes: dict[str, int],
    device: torch.device,
) -> Job:  # fmt: skip
    """A job at its first step; with groups it has a penalty."""
    model.to(device)
    # The vectors of GloVe never change: there need not be two of them.
    shared = {id(model.words.glove): model.words.glove} if config.scope != "all" else {}
    average = average_of(model, shared)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=config.rate)
    sparsifier = _sparsifier(config, groups, sizes).attach(optimizer, copies=[average]) if groups else None
    interval = max(1, min(50, config.evaluate))
    return Job(model, average, optimizer, torch.zeros(interval, device=device), about, sparsifier, sizes=sizes)


def _sparsifier(config: SquadConfig, groups: leanrnn.Groups, sizes: dict[str, int]) -> leanrnn.Sparsifier:
    thresholds: list[Any] = [leanrnn.ElementThreshold(config.threshold, parameters=THRESHOLDED, biases=True)]
    if config.group_threshold:
        thresholds.append(leanrnn.GroupThreshold(config.group_threshold))
    penalty: Any = "group_lasso"
    if config.by_cost:
        weights = {name: (size / max(sizes.values())) ** 0.5 for name, size in sizes.items()}
        penalty = leanrnn.GroupLasso(groups, weights=weights)
    strength: Any = leanrnn.linear_ramp(config.strength, config.ramp) if config.ramp else config.strength
    if config.penalised:
        strength = leanrnn.off_from(strength, config.penalised, left=config.afterwards)
    return leanrnn.Sparsifier(groups, strength=strength, threshold=thresholds, penalty=penalty, mode=config.mode)
