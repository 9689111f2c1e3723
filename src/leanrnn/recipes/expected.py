"""What came out of recipes: measured with these settings (``results/`` has the runs), or as others published it."""

from __future__ import annotations

from leanrnn.recipes.recipe import Recipe

__all__ = ["expected"]

MEASURED = {
    "ptb-lstm-small": "119.2 / 114.3",
    "ptb-lstm-small-iss": "106.9 / 102.7, layers 98 + 175, 1.3 times fewer mult-adds",
    "ptb-lstm-small-lean": "113.9 / 110.2, layers 85 + 94, 2.4 times fewer mult-adds, in 0.6 of the time",
}
"""Perplexity of the validation and the test text."""
PUBLISHED = {
    "ptb-lstm-medium": "86.2 / 82.1",
    "ptb-lstm-large": "82.6 / 78.6",
    "ptb-lstm-large-iss": "82.6 / 78.7, layers 373 + 315, 7.5 times fewer mult-adds",
    "ptb-lstm-large-l1": "82.4 / 78.6, layers 996 + 1280",
    "ptb-lstm-large-direct": "90.3 / 85.7 with layers of 373 and 315",
    "ptb-rhn": "67.9 / 65.4",
    "ptb-rhn-iss": "68.1 / 65.4, width 517",
}
"""The same from the papers, at strengths that they do not all tell; not done again here."""


def expected(name: str, recipe: Recipe) -> str:
    """What to expect of a recipe, in a few words. ::

    expected("ptb-lstm-small", RECIPES["ptb-lstm-small"])
    """
    if name in MEASURED:
        return MEASURED[name]
    return f"published {PUBLISHED[name]}" if name in PUBLISHED else "not measured yet"
