"""``leanrnn ls`` and ``leanrnn env``."""

from __future__ import annotations

from dataclasses import dataclass

from leanrnn.cli.printing import print_json, print_table
from leanrnn.environment import environment
from leanrnn.lab import RECIPES

__all__ = ["Env", "Ls"]


@dataclass(frozen=True)
class Ls:
    """List the recipes, with what to expect of each."""

    json: bool = False
    """Print their settings as JSON."""

    def run(self) -> None:
        """Print them."""
        if self.json:
            print_json(
                {
                    name: {"about": each.about, "expected": each.expected, "start": each.start}
                    | {"config": each.config.to_json()}
                    for name, each in RECIPES.items()
                }
            )
            return
        rows = ((name, each.about, each.expected) for name, each in RECIPES.items())
        print_table([("recipe", "what it is", "what came out (validation / test)"), *rows])


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
