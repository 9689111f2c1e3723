"""``leanrnn ls`` and ``leanrnn env``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from leanrnn.cli.printing import print_entries, print_json, print_table
from leanrnn.environment import environment
from leanrnn.lab import RECIPES

__all__ = ["Env", "Ls"]


RUNS = Path("runs")
"""Where ``leanrnn train`` writes if no other folder is named."""


@dataclass(frozen=True)
class Ls:
    """List the runs in the folder runs, and the recipes with their results: perplexity on the validation text and the
    test text, or exact match and F1."""

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
        for title, entries in (("Runs", _runs()), ("Your own text", _recipes(True)), ("Benchmarks", _recipes(False))):
            if entries:
                print(f"{title}:")
                print_entries(entries)
                print()
        print("Train one with: leanrnn train RECIPE --data FOLDER")


def _recipes(own: bool) -> list[tuple[str, str]]:
    """Names, each with what it is and what came out of it; those for a text of one's own, or all others."""
    return [
        (name, f"{each.about}{f' [{each.expected}]' if each.expected else ''}")
        for name, each in RECIPES.items()
        if (getattr(each.config, "corpus", "") == "text") is own
    ]


def _runs() -> list[tuple[str, str]]:
    """Folders of runs, each with its recipe and whether it has ended."""
    found = []
    for path in sorted(RUNS.glob("*/config.json")):
        try:
            recipe = json.loads(path.read_text(encoding="utf-8"))["recipe"]
        except (OSError, ValueError, KeyError, TypeError):  # not of leanrnn, or damaged: its own command will tell
            continue
        ended = "finished" if (path.parent / "result.json").is_file() else "not finished"
        found.append((str(path.parent), f"{recipe}, {ended}"))
    return found


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
