"""All ways to a smaller model that are compared, each as a function from a task to a trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import leanrnn
from benchmarks.pays.cases import CASES, Settings
from benchmarks.pays.grid import chosen
from benchmarks.pays.methods import CutAtOnce, Lean, Paper
from benchmarks.pays.records import Store
from benchmarks.pays.train import Method, Task, Trained, train
from leanrnn.lab.language.model import LanguageModel, load_language_model

__all__ = ["ARMS", "Arm", "Waits", "save"]


class Waits(Exception):
    """What this needs has not been measured yet."""


@dataclass(frozen=True)
class Arm:
    """One way: its name in tables, what it does, and whether it has a teacher and a strength to be found."""

    title: str
    run: Callable[[Task, Store, float], Trained]
    taught: bool = False
    strength: float = 0.0
    """With which the search for one begins, at learning rate 1; 0 if it has none."""
    ends: int = 0
    """The epoch, counted from 0, at whose beginning its widths stand, if that is not the last one."""


def save(file_of: Callable[..., object], task: Task, arm: str, trained: Trained) -> None:
    """Keep a model, with how far it is."""
    config = task.case.config_of(task.settings)
    about = {"config": config.to_json(), "words": list(task.text.words)}
    progress = {"valid": trained.valid, "seconds": trained.seconds}
    path = file_of(arm, task.case.name, *task.settings)
    leanrnn.save(trained.model, path, about={**about, **progress})  # type: ignore[arg-type]


def dense(task: Task, store: Store, strength: float) -> Trained:
    """The model as it is."""
    return train(task, Method(), half(task, store))


def half(task: Task, store: Store) -> Trained:
    """A dense model after half of the epochs, kept for those who cut it then."""
    config = task.case.config_of(task.settings)
    file = store.file("half", task.case.dense, *task.settings)
    if not file.exists():
        trained = train(task, Method(), Trained(task.case.model(task.settings)), until=config.epochs // 2)
        about = {"config": config.to_json(), "words": list(task.text.words)}
        leanrnn.save(trained.model, file, about={**about, "valid": trained.valid, "seconds": trained.seconds})
    said = leanrnn.about(file)
    model = load_language_model(file)
    model.drops = [1 - config.keep] * (len(config.widths) + 1)
    return Trained(model, list(said["valid"]), float(said["seconds"]))


def uniform(task: Task, store: Store, strength: float) -> Trained:
    """A small model from the start, all layers by the same factor."""
    return train(task, Method(), Trained(task.case.model(task.settings, task.case.uniform())))


def found(task: Task, store: Store, strength: float) -> Trained:
    """A small model from the start, with the widths that ours found with the first seed."""
    ours = chosen(store.of(task.case.name), "ours")
    if ours is None:
        raise Waits("the widths that ours finds")
    return train(task, Method(), Trained(task.case.model(task.settings, ours.widths)))


def cut_by_norm(task: Task, store: Store, strength: float) -> Trained:
    """Cut by norms when half trained."""
    return train(task, CutAtOnce(task, "norm"), half(task, store))


def cut_by_saliency(task: Task, store: Store, strength: float) -> Trained:
    """Cut by saliency when half trained."""
    return train(task, CutAtOnce(task, "saliency"), half(task, store))


def paper(task: Task, store: Store, strength: float) -> Trained:
    """Group lasso as published."""
    return train(task, Paper(strength), Trained(task.case.model(task.settings)))


def lean(task: Task, store: Store, strength: float) -> Trained:
    """Group lasso as in leanrnn's recipes; where the widths miss the budget, it ends with the penalty."""
    method = Lean(task, strength)
    begun = train(task, method, Trained(task.case.model(task.settings)), until=Lean.PENALISED)
    method.epoch(begun.model, Lean.PENALISED)
    if not within(task, begun.model):
        return begun
    return train(task, Method(), begun)


def within(task: Task, model: LanguageModel) -> bool:
    """Whether the widths use the budget, and no more."""
    return NEAR * task.case.most <= task.case.mult_adds(model.widths) <= task.case.most


NEAR = 0.9  # of a budget: near enough for an arm whose strength is searched for

_PLAIN = {
    "uniform": Arm("direct, uniform widths", uniform),
    "found": Arm("direct, the widths ours found", found),
    "norm": Arm("cut at once by norm, then trained on", cut_by_norm),
    "saliency": Arm("cut at once by saliency, then trained on", cut_by_saliency),
    "paper": Arm("group lasso of the paper", paper, strength=3e-3),
    "lean": Arm("group lasso of the recipes", lean, strength=0.0125),
}
ARMS = {"dense": Arm("dense", dense), **_PLAIN}
