"""A language model as an ONNX file that goes on from word to word, and the perplexity of such a file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

import leanrnn
from leanrnn.deploy import Exported, metadata_of, runner_of
from leanrnn.errors import ExportError
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.model import load_language_model, parts_of
from leanrnn.lab.language.text import Text, read, streams, windows

__all__ = ["evaluator", "export_language_model", "perplexity_of_file"]


def export_language_model(source: Path, out: Path, *, steps: int = 5, opset: int = 20) -> Exported:
    """Write the model in a file of a run as ONNX; its state goes in and comes out, so that a text can be fed in pieces,
    and its words are in the metadata. As a program of torch (``out`` ends in .pt2) it always reads ``steps`` words. ::

    export_language_model(Path("runs/mine/model.safetensors"), Path("small.onnx"))
    """
    model, about = load_language_model(source), leanrnn.about(source)
    # From the first word to the last: what the file is tried with later is between the smallest and the largest.
    words = torch.linspace(0, len(about["words"]) - 1, 2 * steps).long().view(steps, 2)
    state = model.first_state(batch=2)
    outputs = ["scores"]
    for i, each in enumerate(state):
        outputs += [f"{part}_{i}" for part, _ in zip("hc", parts_of(each), strict=False)]
    return leanrnn.export(model, (words, state), out, outputs=outputs, about=about, opset=opset)


def perplexity_of_file(path: Path, text: Text, batch: int, window: int) -> float:
    """Of the validation text, read as in training. ::

    perplexity_of_file(Path("small.onnx"), text, 20, 35)
    """
    run = runner_of(path)
    _, *states = metadata_of(path)["inputs"].values()
    state = [torch.zeros(1, batch, shape[-1]) for shape in states]
    total, count = 0.0, 0
    for words, wanted in windows(streams(text.valid, batch), window):
        scores, *state = run([words, *state])
        flat = scores.flatten(0, 1)
        total += float(cross_entropy(flat, wanted.flatten(), reduction="sum"))
        count += wanted.numel()
    return math.exp(min(total / count, 700.0))


def evaluator(path: Path, data: Path) -> Callable[[Path], float]:
    """For ``leanrnn.quantize(evaluate=)``: validation perplexity of the recipe that the model in ``path`` is of."""
    about = metadata_of(path)["about"]
    try:
        config, words = Config.from_json(about["config"]), tuple(about["words"])
    except KeyError as error:
        raise ExportError(f"{path} is not of a language model that leanrnn has trained. Leave --data out.") from error
    text = read(config, data)
    if text.words != words:
        raise ExportError(f"{path} knows other words than {data}. Give the data it was trained on.")
    return lambda file: perplexity_of_file(file, text, config.batch, config.window)
