"""What a run folder tells, gathered for a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leanrnn
from leanrnn.errors import ConfigError, RunError
from leanrnn.measure import mult_adds
from leanrnn.norms import group_norms
from leanrnn.recipes.config import Config
from leanrnn.recipes.job import example
from leanrnn.recipes.model import LanguageModel, language_model, load_language_model
from leanrnn.runs import model_file
from leanrnn.surgery.plan import Plan, whole_plan

__all__ = ["Story", "read_stories"]


@dataclass(frozen=True)
class Story:
    """A run: finished, or as far as its last checkpoint."""

    name: str
    folder: Path
    about: dict[str, Any]
    """Recipe, settings, text."""
    first: dict[str, Any]
    """Settings of the model it comes from: its own, or those of the run it was started from."""
    epochs: list[dict[str, Any]]
    result: dict[str, Any] | None
    """None if it is not finished."""
    environment: dict[str, Any]
    model: LanguageModel
    plan: Plan
    groups: leanrnn.Groups
    norms: dict[str, list[float]]
    """Of all groups that are not zero, by layer."""
    mult_adds: int
    """A word."""
    first_mult_adds: int
    """A word, of the model it comes from."""

    @property
    def config(self) -> dict[str, Any]:
        """All settings."""
        return dict(self.about["config"])

    @property
    def sizes(self) -> list[int]:
        """Embedding and layers."""
        return [int(self.model.embedding.weight.size(1)), *self.model.widths]

    @property
    def first_sizes(self) -> list[int]:
        """The same of the model it comes from."""
        return [self.first["embedding"], *self.first["widths"]]

    @property
    def valid(self) -> float:
        """Perplexity of the validation text."""
        return float(self.result["valid"] if self.result else self.epochs[-1]["valid"])

    @property
    def test(self) -> float | None:
        """Perplexity of the test text, which only a finished run has read."""
        return float(self.result["test"]) if self.result else None

    @property
    def weights(self) -> int:
        """Those that are trained."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    @property
    def seconds(self) -> float:
        """Of training."""
        return float(sum(line["seconds"] for line in self.epochs))


def read_stories(folders: Sequence[Path]) -> list[Story]:
    """The stories of run folders, each under a name of its own; an error says which folder has none. ::

    read_stories([Path("runs/text"), Path("runs/text-dense")])[0].valid
    """
    places = [folder.resolve() for folder in folders]
    if again := next((folder for folder, place in zip(folders, places, strict=True) if places.count(place) > 1), None):
        raise ConfigError(f"{again} is named twice. Name every run once.")
    names = [place.name for place in places]
    distinct = len(set(names)) == len(names)
    return [
        _story(folder, name if distinct else str(folder)) for folder, name in zip(folders, names, strict=True)
    ]  # fmt: skip


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
    epochs = [line for line in _lines(folder / "metrics.jsonl") if line["kind"] == "epoch"]
    if not epochs:
        raise RunError(f"{folder} has no whole epoch yet. Wait for the first one to end.")
    _check(about, epochs, result)
    file = model_file(folder)
    model, first = load_language_model(file).eval(), leanrnn.about(file)["config"]
    groups = leanrnn.discover(model, example(), scope="all")
    norms = {name: [norm for norm in values.tolist() if norm > 0] for name, values in group_norms(groups).items()}
    dense = language_model(Config.from_json(first), model.head.out_features).eval()
    costs = (mult_adds(each, example()) // example().numel() for each in (model, dense))
    environment = _lines(folder / "environment.jsonl")[-1]
    return Story(
        name, folder, about, first, epochs, result, environment, model, whole_plan(model), groups, norms, *costs
    )


def _check(about: dict[str, Any], epochs: list[dict[str, Any]], result: dict[str, Any] | None) -> None:
    """What a page needs is looked up here, so that nothing is missing when it is written."""
    Config.from_json(about["config"])
    for line in epochs:
        _ = [float(line[key]) for key in ("epoch", "rate", "train", "valid", "seconds")]
        _ = [dict(line[key]) for key in ("widths", "alive")]
    if result is not None:
        _ = [float(result[key]) for key in ("valid", "test", "difference")]


def _lines(path: Path) -> list[dict[str, Any]]:
    """A JSON object a line; the last one may still be in the making."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
