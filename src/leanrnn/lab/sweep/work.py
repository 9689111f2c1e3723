"""What one process of a sweep does: take a trial, train it, tell what came out, until there is none left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from leanrnn.errors import ConfigError, LeanRNNError
from leanrnn.lab.names import named
from leanrnn.lab.ranks import ALONE
from leanrnn.lab.runs import Run
from leanrnn.lab.settings import changed
from leanrnn.lab.sweep.study import Claim, Hopeless, Plan, Sweep
from leanrnn.lab.task import task_named

__all__ = ["Trained", "front_of", "of_function", "of_recipe", "runs_of", "work"]

Trained = Callable[[Claim, Callable[[], bool]], "tuple[float, Mapping[str, float]] | None"]
"""Trains a trial to the end: score and parts of the budget, or None if it was stopped."""
PAUSE = 2.0
"""Seconds between looks at trials that other processes have, when there is nothing else to do."""


def work(
    sweep: Sweep, train: Trained, stopped: Callable[[], bool] = lambda: False,
    told: Callable[[str, Claim], object] = lambda what, claim: None,
) -> None:  # fmt: skip
    """Trial after trial, until all are done, by whatever process, or ``stopped`` says so. ::

    work(sweep, of_recipe(plan, data))
    """
    while not stopped():
        with sweep.claimed() as claim:
            if claim is not None:
                told("begins", claim)
                told(_done(claim, train, stopped), claim)
                continue
        if not sweep.running():
            return
        time.sleep(PAUSE)  # one of the others may die


def _done(claim: Claim, train: Trained, stopped: Callable[[], bool]) -> str:
    """Train it and tell; what became of it in a word or two."""
    try:
        found = train(claim, stopped)
    except Hopeless:
        claim.end()
        return "ended early"
    except LeanRNNError as error:
        claim.fail(str(error))
        return f"failed: {error}"
    if found is None:
        return "stopped"
    claim.finish(*found)
    return f"score {found[0]:.4g}"


def of_recipe(plan: Plan, data: Any, device: str = "cpu", save_seconds: float = 300.0) -> Trained:
    """Trials of a recipe, each in a run folder of its own. ::

    train = of_recipe(plan, task.read(config, Path("ptb"), print))
    """
    recipe = named(plan.source)
    task = task_named(recipe.task)

    def train(claim: Claim, stopped: Callable[[], bool]) -> tuple[float, Mapping[str, float]] | None:
        config: Any = changed(recipe.config, plan.settings, "--set")
        config = replace(changed(config, claim.settings, "--search"), budget=claim.budget)
        about = {"recipe": plan.source, "config": config.to_json(), "text": data.digest, "start": None, "teacher": None}
        with Run.open(claim.folder, about, {}, {"config": type(config)().to_json()}) as run:
            if run.result() is None:
                for event in task.train(
                    config, data, run, start=None, teacher=None, device=device, save_seconds=save_seconds,
                    stopped=stopped, told=lambda lines: None, ranks=ALONE,
                ):  # fmt: skip
                    if (score := getattr(event, task.wording.score, None)) is not None:
                        used = getattr(event, "used", None) or {"": 1.0}
                        claim.report(event.part(config)[0], _lower(task, score), max(used.values()))
            result = run.result()
        return None if result is None else (_lower(task, result[task.wording.score]), result.get("used", {}))

    return train


def of_function(function: Callable[..., Any]) -> Trained:
    """Trials of a function of one's own. It gets the trial, which has ``settings``, ``budget``, ``folder`` and
    ``report``, and returns score (lower is better) and what part of the budget is used. ::

    train = of_function(my_training)
    """

    def train(claim: Claim, stopped: Callable[[], bool]) -> tuple[float, Mapping[str, float]]:
        claim.folder.mkdir(exist_ok=True)
        found = function(claim)
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], int | float)):
            raise ConfigError(f"the function returned {found!r}. Return a pair: the score, and the part of the budget.")
        score, used = found
        return float(score), dict(used) if isinstance(used, Mapping) else {"budget": float(used)}

    return train


def front_of(sweep: Sweep) -> list[dict[str, Any]]:
    """The best trial of every budget."""
    return [found for budget in sweep.plan.budgets if (found := sweep.best(budget)) is not None]


def runs_of(folder: Path) -> list[Path]:
    """The run folders of the front of a sweep that is over, or under way. ::

    runs_of(Path("sweeps/ptb"))
    """
    found = json.loads((folder / "front.json").read_text(encoding="utf-8"))
    return [folder / each["folder"] for each in found]


def _lower(task: Any, score: float) -> float:
    """A score of which less is better."""
    return float(score) if task.wording.lower else 100.0 - float(score)
