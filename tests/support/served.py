"""A small language model as the files that are served, for tests of whatever runs them."""

from pathlib import Path

import torch

import leanrnn
from leanrnn.lab import Config
from leanrnn.lab.language.model import LanguageModel
from leanrnn.lab.language.onnx import export_language_model

WORDS = ["<unk>", *"the a list of items is not , . ( ) returns method".split()]
LETTERS = ["<unk>", *" abcdeT."]
PTB = ["the", "<eos>", "<unk>", "n't", "of", "a"]


def exported(folder: Path, words: list[str], name: str = "model", **settings: object) -> tuple[Path, LanguageModel]:
    """A model whose next word depends much on what was before, as a file."""
    config = Config(**{"corpus": "text", "embedding": 16, "widths": (24, 20), **settings})
    torch.manual_seed(0)  # also where a fixture of a whole file calls
    model = LanguageModel(len(words), config.embedding, config.widths)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=1.0 if parameter.dim() > 1 else 0.1)
    source = folder / f"{name}.safetensors"
    leanrnn.save(model, source, about={"config": config.to_json(), "words": words})
    return export_language_model(source, folder / f"{name}.onnx").path, model
