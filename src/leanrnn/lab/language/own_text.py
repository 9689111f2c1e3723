"""Your own text: ``text`` is lean, ``text-dense`` the same without a penalty, to compare with."""

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
        replace(DENSE, strength=4e-3, **LEAN), "your own text: a file, or a folder of them, given with --data"
    ),
    "text-dense": Recipe(DENSE, "the same without a penalty"),
}
