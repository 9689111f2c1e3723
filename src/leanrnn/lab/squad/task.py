"""Question answering as a task: what commands and the report need of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import leanrnn
from leanrnn.deploy import Exported, metadata_of
from leanrnn.errors import ExportError
from leanrnn.groups import count_weights
from leanrnn.lab.squad.answer import exported_runner
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Inputs, read
from leanrnn.lab.squad.evaluate import judged, predictions
from leanrnn.lab.squad.job import built, example, load, vocabulary_of
from leanrnn.lab.squad.loop import LONG_ENOUGH, train
from leanrnn.lab.squad.model import BiDAF
from leanrnn.lab.wording import Wording

__all__ = ["SQUAD", "SquadTask"]

ASKED = 12
"""Tokens of a question, about as many as the mean of SQuAD's."""


class SquadTask:
    """See :class:`leanrnn.lab.task.Task`. ::

    SQUAD.load(Path("runs/squad-bidaf/model.safetensors"))
    """

    wording = Wording(
        line="evaluation",
        step="step",
        steps="steps",
        score="f1",
        score_name="F1",
        other="exact",
        other_name="exact match",
        lower=False,
        short="F1 and exact match",
        curves=(("F1", "f1"), ("exact match", "exact")),
        sizes_name="LSTMs",
        score_phrase="F1 {:.2f} on the development questions",
        other_phrase=" and exact match {:.2f}",
        note="The development questions are answered with the averaged weights.",
        call="A call reads 10 texts of 30 words, each with a question of 12",
    )
    head = ""
    tokens = LONG_ENOUGH
    read = staticmethod(read)
    train = staticmethod(train)
    load = staticmethod(load)

    def summary(self, result: Mapping[str, Any]) -> list[str]:
        """Scores and sizes."""
        widths = " + ".join(map(str, result["widths"].values()))
        return [
            f"exact match {result['exact']:.2f}, F1 {result['f1']:.2f} on the development questions",
            f"{result['weights_without_embeddings']:,} weights besides embeddings, LSTMs {widths}",
        ]

    def first(self, about: Mapping[str, Any]) -> BiDAF:
        """With random weights."""
        return built(SquadConfig.from_json(about["config"]), vocabulary_of(about))

    def inputs(self, about: Mapping[str, Any], batch: int, tokens: int) -> Inputs:
        """Texts of so many tokens, and questions of twelve."""
        return example(vocabulary_of(about), batch, tokens, min(tokens, ASKED))

    def sizes(self, model: BiDAF) -> dict[str, Any]:
        """LSTMs and weights."""
        rest = model.weights_without_embeddings
        return {**model.widths, "weights": count_weights(model), "weights without embeddings": rest}

    def learned(self, model: BiDAF, config: Mapping[str, Any]) -> dict[str, int]:
        """The paper's six LSTMs, or the contextual ones too."""
        six = SquadConfig.from_json(config).scope == "modelling"
        return {name: width for name, width in model.widths.items() if not (six and name.startswith("contextual."))}

    def export(self, source: Path, out: Path, *, steps: int, opset: int) -> Exported:
        """Batch, text and question may have any length; what is padded with word 0 has no influence. ::

        SQUAD.export(Path("runs/mine/model.safetensors"), Path("small.onnx"), steps=5, opset=20)
        """
        model, about = load(source), leanrnn.about(source)
        given = example(vocabulary_of(about), 2, max(6, steps), 4)
        return leanrnn.export(model, given, out, outputs=["start", "end"], about=about, opset=opset)

    def evaluator(self, path: Path, data: Path) -> tuple[str, Callable[[Path], float]]:
        """F1 of the development questions."""
        about = metadata_of(path)["about"]
        vocabulary, found = vocabulary_of(about), read(SquadConfig.from_json(about["config"]), data)
        if found.vocabulary != vocabulary:
            raise ExportError(f"{path} knows other words than {data}. Give the data it was trained on.")

        def f1(file: Path) -> float:
            return judged(predictions(exported_runner(file), found.dev, vocabulary), found.dev)[1]

        return "F1", f1


SQUAD = SquadTask()
