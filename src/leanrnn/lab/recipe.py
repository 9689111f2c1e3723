"""A named configuration and what to expect of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from leanrnn.lab.sparse_settings import SparseSettings

__all__ = ["Recipe", "with_results"]


@dataclass(frozen=True)
class Recipe:
    """A complete configuration that has a name; ``leanrnn ls`` lists them. ::

    RECIPES["ptb-lstm-small"].config.widths
    """

    config: SparseSettings
    """All settings: a frozen dataclass of its task."""
    about: str
    start: str | None = None
    """Name of the recipe whose model it begins with; its run is given with ``--start``."""
    task: str = "language"
    """What it is of; ``leanrnn.lab.task`` knows the rest."""
    measured: str = ""
    """What came out with these settings (``results/`` has the runs): perplexity of the validation and the test text;
    of question answering, what a third of its steps gives."""
    published: str = ""
    """The same by others; which strength made it is not always told."""

    @property
    def expected(self) -> str:
        """What to expect of it, in a few words. ::

        RECIPES["ptb-lstm-small"].expected  # "119.2 / 114.3; published 121.4 / 115.9"
        """
        return "; ".join(filter(None, (self.measured, self.published and f"published {self.published}")))


def with_results(
    recipes: Mapping[str, Recipe], *, measured: Mapping[str, str], published: Mapping[str, str] | None = None
) -> dict[str, Recipe]:
    """Recipes by name, each with what came out of it; a result of a name that no recipe has is an error."""
    found = dict(recipes)
    for name, text in measured.items():
        found[name] = replace(found[name], measured=text)
    for name, text in (published or {}).items():
        found[name] = replace(found[name], published=text)
    return found
