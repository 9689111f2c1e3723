"""Language models as a task: what commands and the report need of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leanrnn.deploy import Exported
from leanrnn.groups import count_weights
from leanrnn.lab.language import onnx, text
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.ends import LONG_ENOUGH
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.model import LanguageModel, language_model, load_language_model
from leanrnn.lab.language.text import Text
from leanrnn.lab.wording import Wording

__all__ = ["LANGUAGE", "LanguageTask"]


class LanguageTask:
    """See :class:`leanrnn.lab.task.Task`. ::

    LANGUAGE.load(Path("runs/text/model.safetensors"))
    """

    wording = Wording(
        line="epoch",
        step="epoch",
        steps="epochs",
        score="valid",
        score_name="validation perplexity",
        other="test",
        other_name="test perplexity",
        lower=True,
        short="Perplexity",
        curves=(("validation", "valid"), ("training", "train")),
        sizes_name="embedding + layers",
        score_phrase="perplexity {:.2f} on the validation text",
        other_phrase=" and {:.2f} on the test text",
        note="Training text is judged while training, with dropout on, validation text without.",
        call="A call reads 10 sequences of 30 words",
    )
    head = "head.weight"
    tokens = LONG_ENOUGH
    train = staticmethod(train)
    load = staticmethod(load_language_model)

    def read(self, config: Config, folder: Path | None, tell: Callable[[str, int, int], None]) -> Text:
        """The text a configuration asks for, which takes too little time to tell about."""
        return text.read(config, folder)

    def summary(self, result: Mapping[str, Any]) -> list[str]:
        """Perplexities and sizes."""
        widths = " + ".join(map(str, result["widths"]))
        return [
            f"perplexity {result['valid']:.2f} on the validation text, {result['test']:.2f} on the test text",
            f"{result['weights']:,} weights, embedding {result['embedding']}, layers {widths}",
        ]

    def first(self, about: Mapping[str, Any]) -> LanguageModel:
        """With random weights."""
        return language_model(Config.from_json(about["config"]), len(about["words"]))

    def inputs(self, about: Mapping[str, Any], batch: int, tokens: int) -> Tensor:
        """Random words."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(len(about["words"]), (tokens, batch), generator=generator)

    def sizes(self, model: LanguageModel) -> dict[str, Any]:
        """Embedding, layers and weights."""
        return {
            "embedding": int(model.embedding.weight.size(1)),
            "widths": " + ".join(map(str, model.widths)),
            "weights": count_weights(model),
        }

    def learned(self, model: LanguageModel, config: Mapping[str, Any]) -> dict[str, int]:
        """Embedding and layers, whatever the settings: pages show one beside the other."""
        layers = dict(zip(model.layer_names, model.widths, strict=True))
        return {"embedding": int(model.embedding.weight.size(1))} | layers

    def export(self, source: Path, out: Path, *, steps: int, opset: int) -> Exported:
        """With its state as input and output, to be fed in pieces."""
        return onnx.export_language_model(source, out, steps=steps, opset=opset)

    def evaluator(self, path: Path, data: Path) -> tuple[str, Callable[[Path], float]]:
        """Validation perplexity."""
        return "Validation perplexity", onnx.evaluator(path, data)


LANGUAGE = LanguageTask()
