"""A named configuration and what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass

from leanrnn.recipes.config import Config

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """A complete configuration that has a name; ``leanrnn ls`` lists them. ::

    RECIPES["ptb-lstm-small"].config.widths
    """

    config: Config
    about: str
    start: str | None = None
    """Name of the recipe whose model it begins with; its run is given with ``--start``."""
