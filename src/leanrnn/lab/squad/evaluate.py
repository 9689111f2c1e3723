"""Answers to questions, and how good they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leanrnn.lab.squad.data import Vocabulary, batches
from leanrnn.lab.squad.metric import best_span, scores
from leanrnn.lab.squad.model import BiDAF
from leanrnn.lab.squad.questions import Questions

__all__ = ["Scorer", "judged", "predictions", "runner"]

Scorer = Callable[..., Sequence[Tensor]]
"""From inputs to the scores of starts and ends."""


def runner(model: BiDAF) -> Scorer:
    """A model, in evaluation mode, as a function of inputs of the CPU. ::

    start, end = runner(model)(*batch.inputs)
    """
    device = next(model.parameters()).device

    @torch.inference_mode()
    def scores_of(*inputs: Tensor) -> Sequence[Tensor]:
        found: Sequence[Tensor] = model.eval()(*(each.to(device) for each in inputs))
        return found

    return scores_of


def predictions(
    scorer: Scorer, questions: Questions, vocabulary: Vocabulary, rows: NDArray[np.int64] | None = None, batch: int = 60
) -> dict[str, str]:
    """The answer to every question (or those of ``rows``) by its id: what goes into ``predictions.json``. ::

    predictions(runner(model), data.dev, data.vocabulary)
    """
    wanted = np.arange(len(questions.ids)) if rows is None else rows
    found: dict[str, str] = {}
    for part in batches(questions, vocabulary, wanted, batch):
        first, last, _ = best_span(*scorer(*part.inputs))
        for row, i, j in zip(part.rows.tolist(), first.tolist(), last.tolist(), strict=True):
            found[questions.ids[row]] = questions.answer(row, i, j)
    return found


def judged(answers: dict[str, str], questions: Questions, rows: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """Exact match and F1 of answers to these questions, in per cent."""
    wanted = range(len(questions.ids)) if rows is None else rows.tolist()
    return scores(answers, ((questions.ids[i], questions.truths[i]) for i in wanted))
