"""A model as a program of torch itself (.pt2): any batch, but the number of steps of the example."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from leanrnn.deploy.check import Run
from leanrnn.deploy.files import KEY
from leanrnn.deploy.program import Program, any_length, arguments, longer, told
from leanrnn.deploy.quietly import quietly
from leanrnn.errors import ExportError
from leanrnn.running.quiet import quiet

__all__ = ["reader", "retraced", "write"]


def retraced(model: nn.Module, program: Program, example: Any) -> Program:
    """The same model followed with torch's own recurrent operators, which need no leanrnn to be loaded; they take the
    number of steps for a constant, that of ``example``."""
    tensors = [leaf for leaf in pytree.tree_leaves(example) if isinstance(leaf, Tensor)]
    single = [
        (i, axis)
        for i, shape in enumerate(program.inputs.values())
        for axis, size in enumerate(shape)
        if isinstance(size, str) and not size.startswith("time") and tensors[i].size(axis) == 1
    ]
    example = longer(example, single)  # a batch of one would be taken for a constant too
    args, kwargs = arguments(example)
    try:
        with quiet(model), quietly():
            bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
            shapes = {name: any_length(value) for name, value in bound.items()}
            exported = torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        raise ExportError(
            f"torch cannot follow the model with its own operators ({told(error)}). Export to .onnx instead."
        ) from error
    nodes = {node.name: node for node in exported.graph.nodes}
    inputs = {}
    for name, shape in program.inputs.items():
        sizes = nodes[name].meta["val"].shape
        inputs[name] = tuple(
            int(str(now)) if str(now).isdigit() else was for was, now in zip(shape, sizes, strict=True)
        )
    return replace(program, exported=exported, example=example, inputs=inputs)


def write(program: Program, about: Mapping[str, Any], path: Path) -> None:
    """Save it, with what it says of itself beside it in the archive."""
    with quietly():
        torch.export.save(program.exported, path, extra_files={f"{KEY}.json": json.dumps(about)})


def reader(path: Path) -> Run:
    """The file, read back and ready to run."""
    with quietly():
        module = torch.export.load(path).module()

    def run(example: Any) -> list[Tensor]:
        args, kwargs = arguments(example)
        with torch.no_grad():
            return [leaf for leaf in pytree.tree_leaves(module(*args, **kwargs)) if isinstance(leaf, Tensor)]

    return run
