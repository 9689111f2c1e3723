"""``leanrnn ls`` and ``leanrnn env``."""

from __future__ import annotations

from dataclasses import dataclass

from leanrnn.commands.printing import print_json, print_table
from leanrnn.environment import environment
from leanrnn.recipes import RECIPES

__all__ = ["Env", "Ls"]


@dataclass(frozen=True)
class Ls:
    """List the recipes, with what to expect of each."""

    json: bool = False
    """Print their settings as JSON."""

    def run(self) -> None:
        """Print them."""
        if self.json:
            found = RECIPES.items()
            print_json({n: {"about": r.about, "start": r.start, "config": r.config.to_json()} for n, r in found})
        else:
            print_table([("recipe", "what it is"), *((name, recipe.about) for name, recipe in RECIPES.items())])


@dataclass(frozen=True)
class Env:
    """Print versions, threads and the processor, for a bug report."""

    json: bool = False
    """Print them as JSON."""

    def run(self) -> None:
        """Print them."""
        if self.json:
            print_json(environment())
        else:
            print_table(environment().items())
