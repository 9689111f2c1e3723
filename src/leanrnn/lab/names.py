"""All recipes by name: a line for every file that has some."""

from __future__ import annotations

import difflib

from leanrnn.errors import ConfigError
from leanrnn.lab.language.own_text import OWN_TEXT
from leanrnn.lab.language.ptb_gru import PTB_GRU
from leanrnn.lab.language.ptb_lstm import PTB_LSTM
from leanrnn.lab.language.ptb_rhn import PTB_RHN
from leanrnn.lab.recipe import Recipe
from leanrnn.lab.squad.recipes import SQUAD

__all__ = ["RECIPES", "named"]

RECIPES: dict[str, Recipe] = {**PTB_LSTM, **PTB_GRU, **PTB_RHN, **SQUAD, **OWN_TEXT}


def named(name: str) -> Recipe:
    """The recipe of a name. ::

    named("ptb-lstm-small").config.epochs
    """
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, 1)
        hint = f"Did you mean {near[0]}?" if near else "leanrnn ls lists them."
        raise ConfigError(f"there is no recipe {name!r}. {hint}")
    return RECIPES[name]
