"""All recipes by name."""

from __future__ import annotations

import difflib
from dataclasses import replace

from leanrnn.errors import ConfigError
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.ptb_gru import PTB_GRU, PTB_RNN
from leanrnn.lab.language.ptb_lstm import LEAN, PTB_LSTM
from leanrnn.lab.language.ptb_rhn import PTB_RHN
from leanrnn.lab.recipe import Recipe
from leanrnn.lab.squad.recipes import SQUAD

__all__ = ["RECIPES", "named"]

TEXT = Config(
    corpus="text", embedding=200, widths=(200, 200), keep=0.8, window=35, epochs=12, constant=6, schedule="line"
)
RECIPES: dict[str, Recipe] = {
    **PTB_LSTM,
    **PTB_GRU,
    **PTB_RNN,
    **PTB_RHN,
    **SQUAD,
    "text": Recipe(
        replace(TEXT, strength=4e-3, **LEAN), "your own text: a file, or a folder of them, given with --data"
    ),
    "text-dense": Recipe(TEXT, "the same without a penalty"),
}


def named(name: str) -> Recipe:
    """The recipe of a name. ::

    named("ptb-lstm-small").config.epochs
    """
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, 1)
        hint = f"Did you mean {near[0]}?" if near else "leanrnn ls lists them."
        raise ConfigError(f"there is no recipe {name!r}. {hint}")
    return RECIPES[name]
