"""Question answering as a task: what commands need of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import leanrnn
from leanrnn.deploy import Exported, metadata_of
from leanrnn.errors import ExportError
from leanrnn.lab.squad.answer import exported_runner
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Inputs, read
from leanrnn.lab.squad.evaluate import judged, predictions
from leanrnn.lab.squad.job import example, load, vocabulary_of
from leanrnn.lab.squad.loop import train
from leanrnn.lab.squad.model import BiDAF

__all__ = ["evaluator", "export", "inputs", "load", "read", "sizes", "told", "train"]

ASKED = 12
"""Tokens of a question, about as many as the mean of SQuAD's."""


def told(result: Mapping[str, Any]) -> list[str]:
    """Scores and sizes."""
    widths = " + ".join(map(str, result["widths"].values()))
    return [
        f"exact match {result['exact']:.2f}, F1 {result['f1']:.2f} on the development questions",
        f"{result['weights_without_embeddings']:,} weights besides embeddings, LSTMs {widths}",
    ]


def inputs(about: Mapping[str, Any], batch: int, steps: int) -> Inputs:
    """Texts of so many tokens, and questions of twelve."""
    return example(vocabulary_of(dict(about)), batch, steps, min(steps, ASKED))


def sizes(model: BiDAF) -> dict[str, Any]:
    """LSTMs and weights."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {**model.widths, "weights": trained, "weights without embeddings": model.weights}


def export(source: Path, out: Path, *, steps: int, opset: int) -> Exported:
    """Batch, text and question may have any length; what is padded with word 0 has no influence. ::

    export(Path("runs/mine/model.safetensors"), Path("small.onnx"), steps=5, opset=20)
    """
    model, about = load(source), leanrnn.about(source)
    given = example(vocabulary_of(about), 2, max(6, steps), 4)
    return leanrnn.export(model, given, out, outputs=["start", "end"], about=about, opset=opset)


def evaluator(path: Path, data: Path) -> tuple[str, Callable[[Path], float]]:
    """F1 of the development questions."""
    about = metadata_of(path)["about"]
    vocabulary, found = vocabulary_of(about), read(SquadConfig.from_json(about["config"]), data)
    if found.vocabulary != vocabulary:
        raise ExportError(f"{path} knows other words than {data}. Give the data it was trained on.")

    def f1(file: Path) -> float:
        return judged(predictions(exported_runner(file), found.dev, vocabulary), found.dev)[1]

    return "F1", f1
