"""Your own text: ``text`` ends within a budget; ``text-dense`` is the same without one, to compare with; ``text-lean``
has a penalty of a given strength instead."""

from __future__ import annotations

from dataclasses import replace

from leanrnn.lab.language.config import Config
from leanrnn.lab.language.ptb_lstm import LEAN
from leanrnn.lab.recipe import Recipe

__all__ = ["OWN_TEXT"]

DENSE = Config(
    corpus="text", embedding=200, widths=(200, 200), keep=0.8, window=35, epochs=12, constant=6, schedule="line"
)
OWN_TEXT: dict[str, Recipe] = {
    "text": Recipe(
        replace(DENSE, budget="mult_adds=25%", follow=True),
        "your own text: a file, or a folder of them, given with --data; a quarter of the mult-adds is left",
    ),
    "text-dense": Recipe(DENSE, "the same at full size"),
    "text-lean": Recipe(
        replace(DENSE, strength=4e-3, **LEAN), "the same with a penalty, whose strength says how small it becomes"
    ),
}
