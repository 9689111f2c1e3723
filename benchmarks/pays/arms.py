"""All ways to a smaller model that are compared, each as a function from a task to a trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import leanrnn
from benchmarks.pays.gates import Gates
from benchmarks.pays.grid import chosen
from benchmarks.pays.methods import CutAtOnce, Gradual, Lean, Paper
from benchmarks.pays.records import Store
from benchmarks.pays.strengths import NEAR
from benchmarks.pays.train import Method, Task, Trained, train
from leanrnn.lab.language.model import load_language_model
from leanrnn.surgery import whole_plan

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
    """With which the search for one begins; 0 if it has none."""
    by_rate: bool = False
    """Whether the strength acts times the learning rate."""


def save(store: Store, task: Task, name: str, trained: Trained) -> None:
    """Keep a model, with how far it is, and the settings to build the one that it was cut from."""
    cut = bool(whole_plan(trained.model).cuts)
    config = task.case.config_of(task.settings, () if cut else trained.model.widths)
    about = {"config": config.to_json(), "words": list(task.text.words)}
    progress = {"valid": trained.valid, "seconds": trained.seconds}
    leanrnn.save(trained.model, store.file(name, *task.settings), about={**about, **progress})


def half(task: Task, store: Store) -> Trained:
    """A dense model after half of the epochs, kept for those who cut it then."""
    config, name = task.case.config_of(task.settings), f"{task.case.dense}-half"
    file = store.file(name, *task.settings)
    if not file.exists():
        trained = train(task, Method(), Trained(task.case.model(task.settings)), until=config.epochs // 2)
        if task.hopeless(trained.valid):
            return trained
        save(store, task, name, trained)
    said = leanrnn.about(file)
    return Trained(load_language_model(file), list(said["valid"]), float(said["seconds"]))


def dense(task: Task, store: Store, strength: float) -> Trained:
    """The model as it is."""
    return train(task, Method(), half(task, store))


def uniform(task: Task, store: Store, strength: float) -> Trained:
    """A small model from the start, all layers by the same factor."""
    return train(task, Method(), Trained(task.case.model(task.settings, task.case.uniform())))


def found(task: Task, store: Store, strength: float) -> Trained:
    """A small model from the start, with the widths that ours found with the first seed."""
    ours = chosen(store.of(task.case.name), "ours")
    if ours is None:
        raise Waits("the widths that ours finds")
    return train(task, Method(), Trained(task.case.model(task.settings, ours.widths)))


def longer(arm: str) -> Callable[[Task, Store, float], Trained]:
    """A direct arm with more epochs: as many as fit into the training time of ours."""

    def run(task: Task, store: Store, strength: float) -> Trained:
        seconds = [best.seconds for name in ("ours", arm) if (best := chosen(store.of(task.case.name), name))]
        if len(seconds) < 2:
            raise Waits("the training times of ours and of the direct model")
        config = task.case.config
        epochs = max(config.epochs, round(config.epochs * seconds[0] / seconds[1]))
        case = replace(task.case, config=replace(config, epochs=epochs, constant=epochs // 2))
        return ARMS[arm].run(replace(task, case=case), store, strength)

    return run


def cut_by_norm(task: Task, store: Store, strength: float) -> Trained:
    """Cut by norms when half trained."""
    return train(task, CutAtOnce(task, "norm"), half(task, store))


def cut_by_saliency(task: Task, store: Store, strength: float) -> Trained:
    """Cut by saliency when half trained."""
    return train(task, CutAtOnce(task, "saliency"), half(task, store))


def cut_by_refit(task: Task, store: Store, strength: float) -> Trained:
    """Cut when half trained, and what is left stands in for what is gone."""
    return train(task, CutAtOnce(task, "refit"), half(task, store))


def ours(task: Task, store: Store, strength: float) -> Trained:
    """To a budget, as leanrnn does it when nothing else is said."""
    return train(task, Gradual(task), Trained(task.case.model(task.settings)))


def gradual_by_norm(task: Task, store: Store, strength: float) -> Trained:
    """The same, but what a component is worth is its norm."""
    return train(task, Gradual(task, leanrnn.Course(by="norm")), Trained(task.case.model(task.settings)))


def gates(task: Task, store: Store, strength: float) -> Trained:
    """L0."""
    return train(task, Gates(task), Trained(task.case.model(task.settings)))


def paper(task: Task, store: Store, strength: float) -> Trained:
    """Group lasso as published."""
    return train(task, Paper(strength), Trained(task.case.model(task.settings)))


def lean(task: Task, store: Store, strength: float) -> Trained:
    """Group lasso as in leanrnn's recipes; where the widths miss the budget, the run is over with the penalty."""
    method = Lean(task, strength)
    begun = train(task, method, Trained(task.case.model(task.settings)), until=Lean.PENALISED)
    method.epoch(begun.model, Lean.PENALISED)
    part = task.case.mult_adds(begun.model.widths) / task.case.most
    return train(task, Method(), begun) if NEAR <= part <= 1 else begun


PLAIN = {
    "uniform": Arm("direct, uniform widths", uniform),
    "found": Arm("direct, the widths ours found", found),
    "uniform longer": Arm("direct, uniform widths, time of ours", longer("uniform")),
    "found longer": Arm("direct, the widths ours found, time of ours", longer("found")),
    "ours": Arm("ours, to a budget", ours),
    "gradual": Arm("gradual, by norm", gradual_by_norm),
    "norm": Arm("cut at once by norm, trained on", cut_by_norm),
    "saliency": Arm("cut at once by saliency, trained on", cut_by_saliency),
    "refit": Arm("cut at once by refit, trained on", cut_by_refit),
    "gates": Arm("hard concrete gates (L0)", gates),
    "paper": Arm("group lasso, the paper's", paper, strength=3e-3),
    "lean": Arm("group lasso, our former recipe", lean, strength=0.0125, by_rate=True),
}
"""Arms without a teacher, by their short names."""
TAUGHT = {f"{name} taught": replace(arm, taught=True) for name, arm in PLAIN.items() if "longer" not in name}
ARMS = {"dense": Arm("dense", dense), **PLAIN, **TAUGHT}
