"""What a user sees of a run before its first step: how much data, how large a model, how long a way."""

from __future__ import annotations

from typing import Any

from torch import nn

from leanrnn.cost import mult_adds
from leanrnn.groups import count_weights
from leanrnn.lab.job import judging

__all__ = ["outset"]


def outset(data: str, model: nn.Module, example: Any, words: int, widths: dict[str, int], way: str) -> list[str]:
    """A line each on the data, the model and the training. ``example`` has so many ``words`` to read. ::

    outset("929,589 words", model, words[:3, :1], 3, {"rnn.l0": 200}, "13 epochs")
    """
    with judging(model):
        each = mult_adds(model, example) // words
    sizes = " + ".join(map(str, widths.values()))
    return [
        f"data      {data}",
        f"model     {count_weights(model):,} parameters, {each:,} mult-adds a word, widths {sizes}",
        f"training  {way}, on {next(model.parameters()).device}",
    ]
