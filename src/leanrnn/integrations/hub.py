"""A folder as the Hugging Face Hub has it: weights, configuration, and a page that says what the model is."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from leanrnn.cost import mult_adds
from leanrnn.environment import check_target
from leanrnn.errors import CheckpointError
from leanrnn.groups import count_weights
from leanrnn.groups.groups import named_tensors
from leanrnn.surgery.checkpoint import load, save
from leanrnn.surgery.plan import whole_plan

__all__ = ["from_pretrained", "save_pretrained"]

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"


def save_pretrained(
    model: nn.Module,
    folder: str | os.PathLike[str],
    *,
    config: Mapping[str, Any] | None = None,
    example: Any = None,
    scores: Mapping[str, float] | None = None,
) -> None:
    """Write ``model``, shrunk or not, as a folder that can be published. ::

        save_pretrained(small, "tagger-lean", config={"hidden": 200}, example=example, scores={"accuracy": 0.91})
        small = from_pretrained("tagger-lean", Tagger)

    Arguments:
        config: what the model's class is built with, as plain data. A ``PyTorchModelHubMixin`` and a model of
            transformers know theirs.
        example: an input, for the mult-adds on the page.
        scores: what the model reaches, by name, for the page.
    """
    target = Path(folder)
    settings = _config_of(model) if config is None else dict(config)
    try:
        text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the configuration is not plain data ({error}). Give what JSON takes.") from error
    target.mkdir(parents=True, exist_ok=True)
    check_target(target / WEIGHTS, CheckpointError)
    (target / CONFIG).write_text(text, encoding="utf-8")
    (target / CARD).write_text(_card(model, example, scores or {}), encoding="utf-8")
    save(model, target / WEIGHTS)


def from_pretrained(folder: str | os.PathLike[str], factory: Callable[..., nn.Module]) -> nn.Module:
    """The model that :func:`save_pretrained` wrote: ``from_pretrained("tagger-lean", Tagger)``.

    ``factory`` is the model's class, or a function, called with the configuration as keyword arguments. A folder of the
    Hub is had by ``huggingface_hub.snapshot_download(name)``.
    """
    path = Path(folder) / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"there is no configuration in {path} ({error}). Give a folder of leanrnn.integrations.hub.save_pretrained."
        ) from error
    settings = getattr(factory, "config_class", None)  # of transformers

    def made() -> nn.Module:
        return factory(settings(**config)) if settings is not None else factory(**config)

    return load(Path(folder) / WEIGHTS, made)


def _config_of(model: nn.Module) -> dict[str, Any]:
    """What a model says itself: one of transformers in ``config``, one of the Hub's mixin in ``_hub_mixin_config``."""
    own: Any = getattr(model, "_hub_mixin_config", None)
    own = getattr(model, "config", None) if own is None else own
    if hasattr(own, "to_dict"):
        return dict(own.to_dict())
    if dataclasses.is_dataclass(own) and not isinstance(own, type):
        return dataclasses.asdict(own)
    return dict(own) if isinstance(own, Mapping) else {}


def _card(model: nn.Module, example: Any, scores: Mapping[str, float]) -> str:
    """The page: how to load it, widths, cost, scores."""
    name, plan = type(model).__name__, whole_plan(model)
    dense = 0
    seen = dict[int, str]()
    for tensor_name, parameter in named_tensors(model).items():
        if isinstance(parameter, nn.Parameter) and seen.setdefault(id(parameter), tensor_name) == tensor_name:
            lengths = enumerate(parameter.shape)
            dense += math.prod(plan.lengths.get((tensor_name, axis), length) for axis, length in lengths)
    weights = count_weights(model)
    part = f"{weights:,} of the {dense:,} weights of the dense model" if dense != weights else f"{weights:,} weights"
    rows = [["weights", part]]
    if example is not None:
        rows += [["mult-adds of one call on the example", f"{mult_adds(model, example):,}"]]
    rows += [[f"width of {layer}", f"{len(kept):,}"] for layer, kept in plan.layers.items()]
    rows += [[score, f"{value:.6g}"] for score, value in scores.items()]
    lines = "\n".join(f"| {what} | {value} |" for what, value in rows)
    return (
        "---\nlibrary_name: leanrnn\ntags:\n- leanrnn\n- pytorch\n- recurrent\n---\n"
        f"# {name}\n\nA `{name}` made smaller by leanrnn: an ordinary dense model with fewer hidden units.\n\n"
        "```python\nfrom leanrnn.integrations.hub import from_pretrained\n\n"
        f'model = from_pretrained("FOLDER", {name})\n```\n\n| | |\n|---|---|\n{lines}\n'
    )
