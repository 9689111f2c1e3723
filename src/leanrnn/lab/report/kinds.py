"""What runs of different tasks are told by: their scores, and the words for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from leanrnn.lab.language.config import Config
from leanrnn.lab.language.job import example as words
from leanrnn.lab.language.model import LanguageModel, language_model
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.job import example as questions
from leanrnn.lab.squad.job import vocabulary_of
from leanrnn.lab.squad.model import BiDAF

__all__ = ["Kind", "kind_of"]


@dataclass(frozen=True)
class Kind:
    """The words and numbers of one task."""

    line: str
    """Which lines of the metrics are the points of a curve."""
    step: str
    """What they count."""
    steps: str
    """The setting that says how many there are."""
    score: str
    """Key of the score that runs are compared by, in a line and in the result."""
    score_name: str
    other: str
    """Key of the score beside it."""
    other_name: str
    lower: bool
    """Whether less is better."""
    short: str
    """Name of the curves of scores."""
    curves: tuple[tuple[str, str], ...]
    """Names and keys of these curves."""
    sizes_name: str
    told: str
    """The end of a sentence on the score; and on the other one."""
    also: str
    note: str
    """How the curves are to be read."""
    call: str
    """What a call reads when models are timed."""
    sizes: Callable[[dict[str, Any], Any], dict[str, int]]
    """Widths of a model by name, given the settings."""
    first: Callable[[dict[str, Any]], tuple[Any, dict[str, int]]]
    """The dense model that a file says it comes from, and its widths."""
    example: Callable[[dict[str, Any]], Any]
    """An input, and how many words are in it."""
    recurrent: Callable[[Any, dict[str, Any]], list[tuple[str, str]]]
    """Titles and names of the LSTMs."""
    head: str = ""
    """The layer over all words, if there is one."""


def kind_of(about: dict[str, Any]) -> Kind:
    """Of what a file of a model says about itself."""
    return SQUAD if about.get("task") == "squad" else LANGUAGE


def _language_sizes(config: dict[str, Any], model: LanguageModel) -> dict[str, int]:
    return {"embedding": int(model.embedding.weight.size(1))} | dict(zip(model.layer_names, model.widths, strict=True))


def _first_language(about: dict[str, Any]) -> tuple[LanguageModel, dict[str, int]]:
    config = about["config"]
    model = language_model(Config.from_json(config), len(about["words"]))
    return model, _language_sizes(config, model)


def _squad_sizes(config: dict[str, Any], model: BiDAF) -> dict[str, int]:
    """Those whose widths are learned."""
    six = SquadConfig.from_json(config).scope == "modelling"
    return {name: width for name, width in model.widths.items() if not (six and name.startswith("contextual."))}


def _first_squad(about: dict[str, Any]) -> tuple[BiDAF, dict[str, int]]:
    config, vocabulary = about["config"], vocabulary_of(about)
    sizes = vocabulary.own, len(vocabulary.words) - vocabulary.own, len(vocabulary.characters) + 2
    model = BiDAF(*sizes, config["width"])
    return model, _squad_sizes(config, model)


def _layers(model: LanguageModel, config: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f"Layer {i + 1}", f"layers.{i}") for i in range(len(model.layers))]


def _directions(model: BiDAF, config: dict[str, Any]) -> list[tuple[str, str]]:
    names = [name.removesuffix(".l0") for name in _squad_sizes(config, model)]
    return [(name.replace(".", ", ").capitalize(), name) for name in names]


def _asked(about: dict[str, Any]) -> tuple[Any, int]:
    return questions(vocabulary_of(about), 2, 30, 12), 2 * 30


def _said(about: dict[str, Any]) -> tuple[torch.Tensor, int]:
    return words(), words().numel()


LANGUAGE = Kind(
    line="epoch", step="epoch", steps="epochs", score="valid", score_name="validation perplexity", other="test",
    other_name="test perplexity", lower=True, short="Perplexity",
    curves=(("validation", "valid"), ("training", "train")), sizes_name="embedding + layers",
    told="perplexity {:.2f} on the validation text", also=" and {:.2f} on the test text",
    note="Training text is judged while training, with dropout on, validation text without.",
    call="A call reads 10 sequences of 30 words", sizes=_language_sizes, first=_first_language, example=_said,
    recurrent=_layers, head="head.weight",
)  # fmt: skip
SQUAD = Kind(
    line="evaluation", step="step", steps="steps", score="f1", score_name="F1", other="exact",
    other_name="exact match", lower=False, short="F1 and exact match", curves=(("F1", "f1"), ("exact match", "exact")),
    sizes_name="LSTMs", told="F1 {:.2f} on the development questions", also=" and exact match {:.2f}",
    note="The development questions are answered with the averaged weights.",
    call="A call reads 10 texts of 30 words, each with a question of 12", sizes=_squad_sizes, first=_first_squad,
    example=_asked, recurrent=_directions,
)  # fmt: skip
