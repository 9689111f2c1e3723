"""The answer to one question about a text of one's own, from a model of torch or an exported file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import leanrnn
from leanrnn.deploy import format_of, metadata_of, runner_of
from leanrnn.errors import DataError
from leanrnn.lab.squad.data import Vocabulary
from leanrnn.lab.squad.evaluate import Scorer, runner
from leanrnn.lab.squad.job import TASK, load, vocabulary_of
from leanrnn.lab.squad.metric import best_span
from leanrnn.lab.squad.tokens import sentence, tokenize

__all__ = ["Answer", "answer", "exported_runner", "opened"]


@dataclass(frozen=True)
class Answer:
    """A piece of a text that answers a question."""

    text: str
    probability: float
    """Of just this piece, among all there are."""
    sentence: str
    """What it stands in."""
    start: int
    """Its first character in the text."""


def answer(scorer: Scorer, vocabulary: Vocabulary, text: str, question: str) -> Answer:
    """The likeliest answer. ::

    scorer, vocabulary = opened(Path("runs/mine/model.safetensors"))
    answer(scorer, vocabulary, "Bob left at noon.", "Who left?").text  # Bob
    """
    spans = tokenize(text)
    for name, found in (("text", spans), ("question", tokenize(question))):
        if not found:
            raise DataError(f"the {name} is empty. Give some words.")
    asked = [question[i:j] for i, j in tokenize(question)]
    given = (*_numbers(vocabulary, [text[i:j] for i, j in spans]), *_numbers(vocabulary, asked))
    first, last, probability = (float(each) for each in best_span(*scorer(*given)))
    start, end = spans[int(first)][0], spans[int(last)][1]
    return Answer(text[start:end], probability, sentence(text, start, end), start)


def opened(path: Path) -> tuple[Scorer, Vocabulary]:
    """A model to ask, from a file of a run or an exported one, and the words it knows."""
    exported = format_of(path) is not None
    about: dict[str, Any] = metadata_of(path)["about"] if exported else leanrnn.about(path)
    if about.get("task") != TASK:
        raise DataError(f"{path} answers no questions. Give a model of a recipe squad-bidaf.")
    return exported_runner(path) if exported else runner(load(path)), vocabulary_of(about)


def exported_runner(path: Path) -> Scorer:
    """An exported file as a function of inputs."""
    run = runner_of(path)
    return lambda *inputs: run(inputs)


def _numbers(vocabulary: Vocabulary, tokens: list[str]) -> tuple[Tensor, Tensor]:
    words, characters = vocabulary.numbers(tokens)
    return torch.from_numpy(words)[None], torch.from_numpy(characters)[None]
