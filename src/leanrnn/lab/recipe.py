"""A named configuration and what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """A complete configuration that has a name; ``leanrnn ls`` lists them. ::

    RECIPES["ptb-lstm-small"].config.widths
    """

    config: Any
    """All settings: a frozen dataclass of its task."""
    about: str
    start: str | None = None
    """Name of the recipe whose model it begins with; its run is given with ``--start``."""
    task: str = "language"
    """What it is of; ``leanrnn.lab.task`` knows the rest."""
