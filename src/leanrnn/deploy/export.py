"""Write a model as an ONNX file that runs at any length, and run it before it is believed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leanrnn.errors import ExportError

__all__ = ["Exported", "export"]

OPSETS = (17, 25)
"""Versions of ONNX's operators that files were written and run with."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how it was seen to hold."""

    path: Path
    inputs: dict[str, tuple[str | int, ...]]
    """Names of what goes in, and its axes: a number is fixed, a word may be anything."""
    outputs: tuple[str, ...]
    nodes: int
    """Of the graph."""
    difference: float
    """The largest between the file and the model, relative to the largest number of an output."""


def export(
    model: nn.Module,
    example: Any,
    path: str | os.PathLike[str],
    *,
    outputs: Sequence[str] | None = None,
    about: Mapping[str, Any] | None = None,
    fixed: bool = False,
    opset: int = 20,
) -> Exported:
    """Write ``model`` in evaluation mode to ``path`` as ONNX; batch and time may then have any length. ::

        leanrnn.export(small, example, "small.onnx")
        leanrnn.export(small, (words, state), "stream.onnx", outputs=["scores", "h", "c"])
        leanrnn.export(small, example, "small.pt2")  # for torch.export.load; as many steps as the example has

    ``example`` is an input as for :func:`discover`. A state in it becomes an input of the file, and a state that the
    model returns an output, so that a long sequence can be fed in pieces. The file is run (with onnxruntime, or torch)
    at lengths that were not traced and compared with the model before it appears; if it differs there is no file.

    Arguments:
        path: ends in ``.onnx``, or in ``.pt2`` for a program of torch, which runs as many steps as the example has.
        outputs: names of what comes out, in order; a ``.pt2`` file has none.
        fixed: allow lengths to be fixed in the file that are not in the model, as a loop over the steps in Python does.
        about: plain data of yours to keep in the file's metadata, such as the words of a vocabulary.
        opset: version of ONNX's operators, for a runtime that does not know this one.
    """
    target, training = Path(path), model.training
    if not target.parent.is_dir():
        raise ExportError(f"there is no folder {target.parent}. Create it first.")
    if target.suffix not in (".onnx", ".pt2"):
        raise ExportError(f"{target.name} ends in neither .onnx nor .pt2. Give it one of these endings.")
    if other := {p.dtype for p in model.parameters() if p.is_floating_point()} - {torch.float32}:
        raise ExportError(
            f"the model has weights of {other.pop()}, and recurrent layers run in float32 there. Call .float() first."
        )
    model.eval()
    try:
        # Beside the target, so that the last step is a rename within one file system.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            part = Path(folder) / target.name
            if target.suffix == ".onnx":
                written = _onnx(model, example, part, outputs, about, fixed, opset)
            else:
                written = _pt2(model, example, part, about)
            part.replace(target)
    finally:
        model.train(training)
    return replace(written, path=target)


def _onnx(
    model: nn.Module, example: Any, path: Path, outputs: Sequence[str] | None, about: Mapping[str, Any] | None,
    fixed: bool, opset: int,
) -> Exported:  # fmt: skip
    from leanrnn.deploy.quietly import needed

    needed("onnx", "onnxscript", "onnxruntime")
    from leanrnn.deploy.check import check, onnx_reader
    from leanrnn.deploy.graph import metadata, to_onnx
    from leanrnn.deploy.program import trace

    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise ExportError(f"opset is {opset}. Give one from {OPSETS[0]} to {OPSETS[1]}.")
    program = trace(model, example, fixed)
    graph = to_onnx(program, metadata(model, program, about), outputs, opset)
    names = [value.name for value in graph.graph.outputs]
    _save(graph, path)
    difference = check(onnx_reader(path, program), model, program, names)
    return Exported(path, program.inputs, tuple(names), len(list(graph.graph)), difference)


def _pt2(model: nn.Module, example: Any, path: Path, about: Mapping[str, Any] | None) -> Exported:
    from leanrnn.deploy import pt2
    from leanrnn.deploy.check import check
    from leanrnn.deploy.graph import metadata
    from leanrnn.deploy.program import trace

    program = pt2.retraced(model, trace(model, example, fixed=True), example)
    pt2.write(program, metadata(model, program, about), path)
    names = [f"output {i}" for i in range(len(program.exported.graph_signature.user_outputs))]
    difference = check(pt2.reader(path), model, program, names)
    return Exported(path, program.inputs, tuple(names), len(program.exported.graph.nodes), difference)


def _save(graph: Any, path: Path) -> None:
    import onnx_ir

    try:
        onnx_ir.save(graph, path)
    except ValueError as error:
        raise ExportError(f"the model is too large for one ONNX file ({error}). Shrink it first.") from error
