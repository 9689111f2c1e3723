"""The command that makes a run again, from what its folder says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from leanrnn.lab import RECIPES, Recipe
from leanrnn.lab.report.story import Story

__all__ = ["train_command"]


def train_command(story: Story) -> str:
    """What to type: the recipe, where it reads and writes, and every setting that is not the recipe's. ::

    train_command(story)  # leanrnn train text --data book --out runs/text --threads 1 --strength 0.004
    """
    about, data = story.about, story.environment.get("data", "FOLDER")
    if "recipe" not in about:  # of the two that the demo trains side by side
        return shlex.join(["leanrnn", "demo", "--out", str(story.folder.parent)])
    words = ["leanrnn", "train", about["recipe"]]
    words += ["--data", data] if data is not None else []
    words += ["--out", str(story.folder)]
    words += ["--start", about["start"]] if about.get("start") else []
    words += ["--threads", str(story.environment["threads"]).split()[0]]
    recipe = RECIPES.get(about["recipe"])
    if recipe is None:
        return shlex.join(words) + "  # a recipe that this leanrnn does not have"
    return shlex.join([*words, *_changed(recipe.config.to_json(), _whole(recipe, story.config))])


def _whole(recipe: Recipe, config: dict[str, Any]) -> dict[str, Any]:
    """All settings: those there was no name for when the run was made were what they are by default."""
    return type(recipe.config)().to_json() | config


def _changed(recipe: dict[str, Any], config: dict[str, Any]) -> Iterator[str]:
    """Options for what differs."""
    for name, value in config.items():
        if recipe.get(name) == value:
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        else:
            yield f"--{option}"
            yield from map(str, value if isinstance(value, list) else [value])
