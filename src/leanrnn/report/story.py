"""What a run folder tells, gathered for a page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leanrnn
from leanrnn.errors import RunError
from leanrnn.measure import mult_adds
from leanrnn.norms import group_norms
from leanrnn.recipes.job import example
from leanrnn.recipes.model import LanguageModel, load_language_model
from leanrnn.surgery.plan import Plan, whole_plan

__all__ = ["Story", "read_story"]


@dataclass(frozen=True)
class Story:
    """A finished run."""

    name: str
    folder: Path
    about: dict[str, Any]
    """Recipe, settings, text."""
    epochs: list[dict[str, Any]]
    result: dict[str, Any]
    environment: dict[str, str]
    model: LanguageModel
    plan: Plan
    groups: leanrnn.Groups
    norms: dict[str, list[float]]
    """Of all groups that are left, by layer."""
    mult_adds: int
    """A word."""
    dense_mult_adds: int
    """A word, of the model it began as."""

    @property
    def config(self) -> dict[str, Any]:
        """All settings."""
        return dict(self.about["config"])

    @property
    def sizes(self) -> list[int]:
        """Embedding and layers."""
        return [self.result["embedding"], *self.result["widths"]]

    @property
    def first_sizes(self) -> list[int]:
        """The same as the run began."""
        return [self.config["embedding"], *self.config["widths"]]

    @property
    def command(self) -> str:
        """What to type to get it again, but for settings that were changed."""
        return f"leanrnn train {self.about.get('recipe', 'RECIPE')} --out {self.folder}"


def read_story(folder: Path) -> Story:
    """The story of a run folder; an error says what is missing. ::

    read_story(Path("runs/text")).result["valid"]
    """
    result = folder / "result.json"
    if not result.is_file():
        known = "it is not finished" if (folder / "config.json").is_file() else "it is no run folder"
        raise RunError(f"there is nothing to report of {folder}: {known}. Name a run that has ended.")
    model = load_language_model(folder / "model.safetensors").eval()
    groups = leanrnn.discover(model, example(), scope="all")
    norms = {name: sorted(values.tolist()) for name, values in group_norms(groups).items()}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    starts = (folder / "environment.jsonl").read_text(encoding="utf-8").splitlines()
    config, words = about["config"], example().numel()
    dense = LanguageModel(model.head.out_features, config["embedding"], tuple(config["widths"])).eval()
    return Story(
        folder.name, folder, about, [line for line in lines if line["kind"] == "epoch"],
        json.loads(result.read_text(encoding="utf-8")), json.loads(starts[-1]), model, whole_plan(model), groups, norms,
        mult_adds(model, example()) // words, mult_adds(dense, example()) // words,
    )  # fmt: skip
