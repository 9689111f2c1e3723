"""What changes while training, all of which a checkpoint holds; begun anew, from another run, or where it was left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import leanrnn
from leanrnn.errors import RunError
from leanrnn.lab.average import average_of, put_back_, stored
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.model import (
    LanguageModel,
    State,
    costs,
    drops,
    language_model,
    load_language_model,
    parts_of,
    state_of,
)
from leanrnn.lab.language.text import Text
from leanrnn.lab.runs import Run

__all__ = ["Job", "begun", "example", "packed", "resumed", "saved", "unpacked"]

PARTS = "hc"
"""Of the state of a layer: hidden, and of an LSTM the cell's."""
NUMBERS = ("epoch", "window", "total", "seconds", "mark", "spent", "valid", "difference")


@dataclass
class Job:
    """A model in training and how far it has come."""

    model: LanguageModel
    optimizer: torch.optim.Optimizer
    losses: Tensor
    """Of the windows of this interval, so that a step never waits for a number."""
    about: dict[str, Any]
    """What a file of the model says of itself: the settings it was built with, and its words."""
    sparsifier: leanrnn.Sparsifier | None = None
    average: LanguageModel | None = None
    """Its weights, averaged over the last steps: what is judged, if there is one."""
    state: State | None = None
    """Carried from window to window; none at the start of an epoch."""
    epoch: int = 0
    window: int = 0
    """Windows of the epoch that are done."""
    total: float = 0.0
    """Sum of the losses of the epoch, up to the last interval."""
    seconds: float = 0.0
    """Of training in this epoch."""
    mark: float = 0.0
    """The same at the last interval."""
    spent: float = 0.0
    """Seconds of all epochs before."""
    valid: list[float] = field(default_factory=list)
    """Perplexity of the validation text after every epoch."""
    difference: float = 0.0
    """The largest there was between the scores of the model with dead components and without them, when they went."""

    @property
    def judged(self) -> LanguageModel:
        """What is validated, and in the end tested and kept."""
        return self.model if self.average is None else self.average

    def begin_average(self) -> None:
        """From now on there is one; what is cut out of the model is cut out of it."""
        self.average = average_of(self.model)
        if self.sparsifier:
            self.sparsifier.detach()
            self.sparsifier.attach(self.optimizer, copies=[self.average])


def begun(config: Config, text: Text, per_epoch: int, start: Path | None, device: torch.device) -> Job:
    """A new job: new weights, or those another run ended with, cut to ``keep_widths`` if there are any."""
    about = {"config": config.to_json(), "words": list(text.words)}
    if start is None:
        if config.keep_widths:
            raise RunError("keep_widths cuts a trained model. Name the run to start from with --start.")
        model = language_model(config, len(text.words))
        return _job(config, model, about, per_epoch, _groups(config, model), device)
    path = start / "model.safetensors" if start.is_dir() else start
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


def resumed(config: Config, run: Run, per_epoch: int, device: torch.device) -> Job | None:
    """The job of the last checkpoint, exactly as it was, if there is one."""
    if (found := run.latest()) is None:
        return None
    data, tensors = found.data, {name: tensor.to(device) for name, tensor in found.tensors.items()}
    model = load_language_model(found.model)
    model.drops = data["dropout"]
    groups = leanrnn.Groups.from_json(data["groups"], model) if data["groups"] else None
    job = _job(config, model, leanrnn.about(found.model), per_epoch, groups, device)
    if job.sparsifier:
        job.sparsifier.load_state_dict(data["sparsifier"])
    for name in NUMBERS:
        setattr(job, name, data[name])
    job.optimizer.load_state_dict(packed(data["optimizer"], tensors))
    job.losses = tensors["losses"].clone()
    if data.get("averaged"):
        job.begin_average()
        put_back_(job.judged, tensors)
    named = [[f"state.{i}.{part}" for part in PARTS] for i in range(data["layers"])]
    job.state = [state_of([tensors[name].clone() for name in names if name in tensors]) for names in named] or None
    torch.set_rng_state(found.tensors["random"])
    if "random_there" in tensors:
        torch.get_device_module(device).set_rng_state(found.tensors["random_there"])
    return job


def saved(job: Job, run: Run, step: int) -> None:
    """Write a checkpoint of everything."""
    tensors = {"losses": job.losses, "random": torch.get_rng_state()}
    if (device := job.losses.device).type != "cpu":  # dropout there has a state of its own
        tensors["random_there"] = torch.get_device_module(device).get_rng_state()
    for i, state in enumerate(job.state or ()):
        tensors |= {f"state.{i}.{part}": tensor for part, tensor in zip(PARTS, parts_of(state), strict=False)}
    tensors |= stored(job.average) if job.average is not None else {}
    data = {
        **{name: getattr(job, name) for name in NUMBERS},
        "layers": len(job.state or ()),
        "averaged": job.average is not None,
        "dropout": job.model.drops,
        "optimizer": unpacked(job.optimizer.state_dict(), tensors),
        "sparsifier": job.sparsifier.state_dict() if job.sparsifier else None,
        "groups": job.sparsifier.groups.to_json() if job.sparsifier else None,
    }
    run.save(step, job.model, tensors, data, job.about)


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
) -> Job:
    """A job at its first step; with groups it has a penalty."""
    model.to(device)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=config.rate)
    sparsifier = _sparsifier(config, groups, per_epoch, len(about["words"])).attach(optimizer) if groups else None
    return Job(model, optimizer, torch.zeros(max(1, per_epoch // 10), device=device), about, sparsifier)


def _groups(config: Config, model: LanguageModel) -> leanrnn.Groups | None:
    return leanrnn.discover(model, example(), scope=config.scope) if config.sparse else None


def _sparsifier(config: Config, groups: leanrnn.Groups, per_epoch: int, words: int) -> leanrnn.Sparsifier:
    touched = ["*"] if config.everywhere else None
    element = leanrnn.ElementThreshold(config.threshold, parameters=touched, biases=config.everywhere)
    thresholds: list[Any] = [element]
    if config.group_threshold:
        thresholds.append(leanrnn.GroupThreshold(config.group_threshold))
    penalty: Any = config.penalty
    if config.penalty == "l1":  # the paper's: everything but the embedding, biases too
        penalty = leanrnn.L1(groups, parameters=["layers.*", "head.*"], biases=True)
    elif config.by_cost:
        dear = costs(config, words)
        weights = {name: (dear[name] / max(dear.values())) ** 0.5 for name in groups.names}
        penalty = leanrnn.GroupLasso(groups, weights=weights)
    steps = round(config.ramp * per_epoch)
    strength: Any = leanrnn.linear_ramp(config.strength, steps) if steps else config.strength
    if config.penalised and config.afterwards:
        strength = leanrnn.off_from(strength, config.penalised * per_epoch, left=config.afterwards)
    return leanrnn.Sparsifier(groups, strength=strength, threshold=thresholds, penalty=penalty, mode=config.mode)


def unpacked(state: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The state of an optimizer as plain data; its tensors go where the others are."""
    plain: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{key}"] = value
            else:
                plain.setdefault(str(index), {})[key] = value
    return {"state": plain, "param_groups": state["param_groups"]}


def packed(data: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The reverse of it."""
    state = {int(index): dict(values) for index, values in data["state"].items()}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    return {"state": state, "param_groups": data["param_groups"]}
