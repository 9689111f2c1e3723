"""What a run folder tells, gathered for a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leanrnn
from leanrnn.cost import mult_adds
from leanrnn.errors import ConfigError, RunError
from leanrnn.groups import count_weights, group_norms
from leanrnn.lab.runs import model_file
from leanrnn.lab.task import Task, task_of
from leanrnn.lab.wording import Wording
from leanrnn.surgery import Plan, whole_plan

__all__ = ["Story", "read_stories"]

BATCH = 2
"""Sequences in an example to find groups and costs with."""


@dataclass(frozen=True)
class Story:
    """A run: finished, or as far as its last checkpoint."""

    name: str
    folder: Path
    task: Task
    about: dict[str, Any]
    """Recipe, settings, text."""
    first: dict[str, int]
    """Widths of the model it comes from: as it began, or those of the run it was started from."""
    epochs: list[dict[str, Any]]
    """Of every epoch, or evaluation, what the metrics say."""
    result: dict[str, Any] | None
    """None if it is not finished."""
    environment: dict[str, Any]
    model: Any
    plan: Plan
    groups: leanrnn.Groups
    norms: dict[str, list[float]]
    """Of all groups that are not zero, by layer."""
    mult_adds: int
    """A word."""
    first_mult_adds: int
    """A word, of the model it comes from."""

    @property
    def wording(self) -> Wording:
        """The words for it."""
        return self.task.wording

    @property
    def config(self) -> dict[str, Any]:
        """All settings."""
        return dict(self.about["config"])

    @property
    def sparse(self) -> bool:
        """Whether components were to go while training."""
        return bool(self.config["strength"] or self.config.get("budget"))

    @property
    def cut(self) -> bool:
        """Whether components are gone."""
        return self.sizes != self.first_sizes

    @property
    def budget(self) -> str:
        """What it may cost, and how much of that it does; nothing without a budget."""
        used = (self.result or self.epochs[-1]).get("used") or {}
        told = ", ".join(f"{name} {part:.1%}" for name, part in used.items())
        return str(self.config.get("budget", "")) + (f" (used: {told})" if told else "")

    @property
    def sizes(self) -> list[int]:
        """Of all widths that are learned."""
        return list(self.task.learned(self.model, self.config).values())

    @property
    def first_sizes(self) -> list[int]:
        """The same of the model it comes from."""
        return list(self.first.values())

    @property
    def valid(self) -> float:
        """The score that runs are compared by."""
        return float((self.result or self.epochs[-1])[self.wording.score])

    @property
    def test(self) -> float | None:
        """The score beside it; only a finished run has read the test text."""
        found = (self.result or self.epochs[-1]).get(self.wording.other)
        return None if found is None else float(found)

    @property
    def weights(self) -> int:
        """Of the model as it is."""
        return count_weights(self.model)

    @property
    def seconds(self) -> float:
        """Of training."""
        return float(sum(line["seconds"] for line in self.epochs))

    @property
    def done(self) -> int:
        """Epochs, or steps, so far."""
        return int(self.epochs[-1][self.wording.step])


def read_stories(folders: Sequence[Path], tell: Callable[[str, int, int], None] = lambda *_: None) -> list[Story]:
    """The stories of run folders, each under a name of its own; an error says which folder has none. ``tell`` is called
    with what is done, how much of it, and how much there is. ::

    read_stories([Path("runs/text"), Path("runs/text-dense")])[0].valid
    """
    places = [folder.resolve() for folder in folders]
    if again := next((folder for folder, place in zip(folders, places, strict=True) if places.count(place) > 1), None):
        raise ConfigError(f"{again} is named twice. Name every run once.")
    names = [place.name for place in places]
    distinct = len(set(names)) == len(names)
    stories: list[Story] = []
    for folder, name in zip(folders, names, strict=True):
        tell("reading the runs", len(stories), len(folders))
        stories.append(_story(folder, name if distinct else str(folder)))
    tell("reading the runs", len(stories), len(folders))
    if other := next((story.name for story in stories if story.task is not stories[0].task), None):
        raise ConfigError(f"{stories[0].name} and {other} are of different tasks. Write a page for each.")
    return stories


def _story(folder: Path, name: str) -> Story:
    if not (folder / "config.json").is_file():
        raise RunError(f"{folder} is no run. Name a folder that leanrnn train has written.")
    try:
        return _read(folder, name)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise RunError(
            f"{folder} cannot be read as a run ({reason}). A file of it is damaged, or not from leanrnn train."
        ) from error


def _read(folder: Path, name: str) -> Story:
    about, path = json.loads((folder / "config.json").read_text(encoding="utf-8")), folder / "result.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    if not any(line["kind"] in ("epoch", "evaluation") for line in _lines(folder / "metrics.jsonl")):
        raise RunError(f"{folder} has no whole epoch yet. Wait for the first one to end.")
    file = model_file(folder)
    said = leanrnn.about(file)
    task = task_of(said)
    wording = task.wording
    epochs = _spent([line for line in _lines(folder / "metrics.jsonl") if line["kind"] == wording.line], wording)
    _check(about, wording, epochs, result)
    model = task.load(file).eval()
    inputs, count = task.inputs(said, BATCH, task.tokens), BATCH * task.tokens
    groups = leanrnn.discover(model, inputs, scope="all" if task.head else "recurrent")
    dense = task.first(said)
    first = task.learned(dense, said["config"])
    known = {name: values.tolist() for name, values in group_norms(groups).items() if name in first}
    norms = {name: [norm for norm in values if norm > 0] for name, values in known.items()}
    costs = (mult_adds(each, inputs) // count for each in (model, dense.eval()))
    environment = _lines(folder / "environment.jsonl")[-1]
    return Story(
        name, folder, task, about, first, epochs, result, environment, model, whole_plan(model), groups, norms, *costs
    )


def _spent(lines: list[dict[str, Any]], wording: Wording) -> list[dict[str, Any]]:
    """Seconds of every line alone: an evaluation tells those since the start."""
    if wording.line == "epoch":
        return lines
    before = [0.0, *(line["seconds"] for line in lines)]
    return [line | {"seconds": line["seconds"] - then} for line, then in zip(lines, before, strict=False)]


def _check(
    about: dict[str, Any], wording: Wording, epochs: list[dict[str, Any]], result: dict[str, Any] | None
) -> None:
    """What a page needs is looked up here, so that nothing is missing when it is written."""
    _ = [about["config"][key] for key in (wording.steps, "strength")]
    for line in epochs:
        _ = [float(line[key]) for key in (wording.step, "seconds", *(key for _, key in wording.curves))]
        _ = [dict(line[key]) for key in ("widths", "alive")]
    if result is not None:
        _ = [float(result[key]) for key in (wording.score, wording.other, "difference")]


def _lines(path: Path) -> list[dict[str, Any]]:
    """A JSON object a line; the last one may still be in the making."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
