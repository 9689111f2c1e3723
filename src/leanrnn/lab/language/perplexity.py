"""Perplexity of a text, as the paper computes it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from leanrnn.errors import RunError
from leanrnn.lab.job import judging
from leanrnn.lab.language.model import LanguageModel
from leanrnn.lab.language.text import streams, windows

__all__ = ["perplexity"]


def perplexity(model: LanguageModel, tokens: Tensor, batch: int, window: int, *, whole: bool = False) -> float:
    """Of a text read in ``batch`` streams with the state carried on; ``whole`` takes the words along that would be left
    over at the end. ::

        perplexity(model, text.valid, 20, 35)             # the paper's validation
        perplexity(model, text.test, 1, 35, whole=True)   # and its test: one stream, so that windows do not matter
    """
    rows = streams(tokens, batch).to(model.head.weight.device)
    pieces = list(windows(rows, window))
    done = len(pieces) * window
    if whole and done < len(rows) - 1:
        pieces.append((rows[done:-1], rows[done + 1 :]))
    if not pieces:
        raise RunError(f"a stream of the text has {len(rows)} tokens, no window of {window} and one more.")
    state, losses = None, []
    with judging(model):
        for words, wanted in pieces:
            scores, state = model(words, state)
            losses.append(cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="sum").double())
    count = sum(wanted.numel() for _, wanted in pieces)
    return math.exp(min(float(torch.stack(losses).sum()) / count, 700.0))  # beyond it a float is infinite
