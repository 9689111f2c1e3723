"""Exact match and F1 exactly as the official script of SQuAD v1.1 computes them, and the best span of an answer."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

__all__ = ["best_span", "exact_match", "f1", "normalized", "scores"]

PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """Lower case, without ASCII punctuation, articles and surplus space. ::

    normalized("The  Denver-Broncos!")  # denverbroncos
    """
    # The official script takes the articles out of what punctuation has left, and puts a space in their place.
    text = answer.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(answer: str, truth: str) -> float:
    """1 if both are the same once normalised, else 0."""
    return float(normalized(answer) == normalized(truth))


def f1(answer: str, truth: str) -> float:
    """Harmonic mean of precision and recall of the words; 0 if they share none, even if both are empty."""
    given, wanted = normalized(answer).split(), normalized(truth).split()
    same = sum((Counter(given) & Counter(wanted)).values())
    return 2 * same / (len(given) + len(wanted)) if same else 0.0


def scores(predictions: Mapping[str, str], truths: Iterable[tuple[str, Sequence[str]]]) -> tuple[float, float]:
    """Exact match and F1 in per cent, each question by the best of its true answers; no prediction counts 0. ::

    scores({"q1": "Denver Broncos"}, [("q1", ["the Broncos", "Denver Broncos"])])  # (100.0, 100.0)
    """
    exact = overlap = 0.0
    total = 0
    for question, answers in truths:
        total += 1
        if question in predictions:
            exact += max(exact_match(predictions[question], truth) for truth in answers)
            overlap += max(f1(predictions[question], truth) for truth in answers)
    return (100 * exact / total, 100 * overlap / total) if total else (0.0, 0.0)


def best_span(start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First and last token of the likeliest answer of every row, first <= last, and its probability.

    ``start`` and ``end`` are scores before softmax, (batch, tokens), very negative behind the end of a text. ::

        first, last, probability = best_span(*model(*inputs))
    """
    p, q = start.log_softmax(-1), end.log_softmax(-1)
    # The best end from every token on: a running maximum from the right.
    best, where = q.flip(-1).cummax(-1)
    best, where = best.flip(-1), q.size(-1) - 1 - where.flip(-1)
    total, first = (p + best).max(-1)
    last = where.gather(-1, first.unsqueeze(-1)).squeeze(-1)
    return first, last, total.exp()
