"""Language models as a task: what commands need of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leanrnn.deploy import Exported
from leanrnn.lab.language import onnx, text
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.model import LanguageModel
from leanrnn.lab.language.model import load_language_model as load
from leanrnn.lab.language.text import Text

__all__ = ["evaluator", "export", "inputs", "load", "read", "sizes", "told", "train"]


def read(config: Config, folder: Path | None, tell: Callable[[str, int, int], None]) -> Text:
    """The text a configuration asks for."""
    return text.read(config, folder)


def told(result: Mapping[str, Any]) -> list[str]:
    """Perplexities and sizes."""
    widths = " + ".join(map(str, result["widths"]))
    return [
        f"perplexity {result['valid']:.2f} on the validation text, {result['test']:.2f} on the test text",
        f"{result['weights']:,} weights, embedding {result['embedding']}, layers {widths}",
    ]


def inputs(about: Mapping[str, Any], batch: int, steps: int) -> Tensor:
    """Words of chance."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(len(about["words"]), (steps, batch), generator=generator)


def sizes(model: LanguageModel) -> dict[str, Any]:
    """Embedding, layers and weights."""
    return {
        "embedding": int(model.embedding.weight.size(1)),
        "widths": " + ".join(map(str, model.widths)),
        "weights": sum(p.numel() for p in model.parameters()),
    }


def export(source: Path, out: Path, *, steps: int, opset: int) -> Exported:
    """With its state as input and output, to be fed in pieces."""
    return onnx.export_language_model(source, out, steps=steps, opset=opset)


def evaluator(path: Path, data: Path) -> tuple[str, Callable[[Path], float]]:
    """Validation perplexity."""
    return "Validation perplexity", onnx.evaluator(path, data)
