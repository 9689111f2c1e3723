"""Write a model as a file that runs at any length, and run it before it is believed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leanrnn.deploy.formats import Options, format_to_write
from leanrnn.environment import check_target
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Exported", "export"]


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
    states: dict[str, str] = field(default_factory=dict)
    """Names of inputs that are states, each with the name of the output that it is in the next call."""


def export(
    model: nn.Module,
    example: Any,
    path: str | os.PathLike[str],
    *,
    outputs: Sequence[str] | None = None,
    states: Mapping[str, int | tuple[int | str, ...]] | None = None,
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
        states: parameters of the forward that are states, each with the position of the returned value that it is in
            the next call, as in ``{"state": 1}``; one left open in the example becomes an input too. If left out, what
            goes in and comes out alike is a state, and what the model keeps in its attributes; ``{}``: nothing is.
        fixed: allow lengths to be fixed in the file that are not in the model, as a loop over the steps in Python does.
        about: plain data of yours to keep in the file's metadata, such as the words of a vocabulary.
        opset: version of ONNX's operators, for a runtime that does not know this one.
    """
    from leanrnn.deploy.carried import carried
    from leanrnn.deploy.check import check
    from leanrnn.deploy.lifted import lifted
    from leanrnn.deploy.metadata import metadata_for
    from leanrnn.deploy.streaming import state_names, traced_stream
    from leanrnn.groups.numbers import check_numbers
    from leanrnn.groups.wrapped import bare

    model = bare(model)
    target, training = Path(path), model.training
    form, options = format_to_write(target), Options(outputs, fixed, opset)
    check_target(target, ExportError)
    check_numbers(model, ExportError)
    _refuse(model, example)
    if form.extra is not None:
        form.extra.check()
    form.check(options)
    model.eval()
    try:
        found = carried(model, example, states)
        # Beside the target, so that the last step is a rename within one file system.
        with (
            tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder,
            lifted(model, found) if states is None else nullcontext(found) as found,
        ):
            part = Path(folder) / target.name
            stream = traced_stream(lambda given: form.trace(model, given, options), model, found)
            program = stream.program
            names, pairs = state_names(stream, outputs) if stream.pairs else (outputs, {})
            metadata = metadata_for(model, program, about) | {"states": pairs}
            written = form.write(program, metadata, part, replace(options, outputs=names))
            run = form.runner(part)
            difference = check(run, model, program, written.outputs)
            difference = max(difference, stream.check(run, written.outputs) if pairs else 0.0)
            part.replace(target)
    finally:
        model.train(training)
    return Exported(target, program.inputs, written.outputs, written.nodes, difference, pairs)


def _refuse(model: nn.Module, example: Any) -> None:
    """What no format can have."""
    import torch
    from torch.nn.utils.rnn import PackedSequence
    from torch.utils import _pytree as pytree

    def is_packed(value: Any) -> bool:
        return isinstance(value, PackedSequence)

    if any(map(is_packed, pytree.tree_leaves(example, is_leaf=is_packed))):
        raise ExportError(
            "the example has a packed sequence, and the inputs of a file are plain tensors. Let the model take the "
            "padded tensor and the lengths, and call pack_padded_sequence in its forward."
        )
    if other := {p.dtype for p in model.parameters() if p.is_floating_point()} - {torch.float32}:
        raise ExportError(
            f"the model has weights of {other.pop()}, and recurrent layers run in float32 there. Call .float() first."
        )
