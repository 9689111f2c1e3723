"""Write a model as a file that runs at any length, and run it before it is believed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leanrnn.deploy.formats import Format, Options, Runner, format_to_write
from leanrnn.environment import check_target
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import nn

    from leanrnn.deploy.carried import Carried
    from leanrnn.deploy.program import Program
    from leanrnn.deploy.variants import Variant

__all__ = ["Exported", "export"]

Held: TypeAlias = frozenset[tuple[int, int]]
"""Lengths that are not to vary: the number of an input, and the axis."""


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
    fixed: dict[str, int] = field(default_factory=dict)
    """Lengths that are as in the example, in the file alone or in the model too: ``{"time": 5}``; ``"x[1]"`` is axis 1
    of the input ``x``, where nothing tells what it is."""
    notes: tuple[str, ...] = ()
    """What else has to be known to use the file."""


def export(
    model: nn.Module,
    example: Any,
    path: str | os.PathLike[str],
    *,
    outputs: Sequence[str] | None = None,
    states: Mapping[str, int | tuple[int | str, ...]] | None = None,
    about: Mapping[str, Any] | None = None,
    opset: int = 20,
) -> Exported:
    """Write ``model`` in evaluation mode to ``path`` as ONNX; batch and time may then have any length. ::

        leanrnn.export(small, example, "small.onnx")
        leanrnn.export(small, (words, state), "stream.onnx", outputs=["scores", "h", "c"])
        leanrnn.export(small, example, "small.pt2")  # for torch.export.load; as many steps as the example has
        leanrnn.export(small, example, "small.c")  # and small.h: C99, one frame of one sequence a call

    ``example`` is an input as for :func:`discover`. A state in it becomes an input of the file, and a state that the
    model returns an output, so that a long sequence can be fed in pieces. The file is run (with onnxruntime or torch,
    or compiled) at lengths that were not traced and compared with the model before it appears; if it differs there is
    no file.

    Arguments:
        path: ends in ``.onnx``, in ``.pt2`` for a program of torch, which runs as many steps as the example has, or in
            ``.c`` for a file of C, which keeps the state and takes a frame a call.
        outputs: names of what comes out, in order; a ``.pt2`` file has none.
        states: parameters of the forward that are states, each with the position of the returned value that it is in
            the next call, as in ``{"state": 1}``; one left open in the example becomes an input too. If left out, what
            goes in and comes out alike is a state, and what the model keeps in its attributes; ``{}``: nothing is.
        about: plain data of yours to keep in the file's metadata, such as the words of a vocabulary.
        opset: version of ONNX's operators, for a runtime that does not know this one.
    """
    from leanrnn.deploy.carried import carried
    from leanrnn.deploy.lifted import lifted
    from leanrnn.groups.numbers import check_numbers
    from leanrnn.groups.wrapped import bare

    model = bare(model)
    target, training = Path(path), model.training
    form, options = format_to_write(target), Options(outputs, opset)
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
            written = _Writing(form, options, model, found, part, about).written()
            form.move(part, target)
    finally:
        model.train(training)
    return replace(written, path=target)


@dataclass
class _Writing:
    """A model on its way into a file."""

    form: Format
    options: Options
    model: nn.Module
    found: Carried
    part: Path
    about: Mapping[str, Any] | None

    def written(self) -> Exported:
        """A file that is right, with as few fixed lengths as it takes: first none; if that is wrong at some other
        length, one; then all."""
        from leanrnn.deploy.check import OtherLengthsError

        program, variants = self._traced(self.found.example, frozenset())
        try:
            return self._attempt(frozenset(), (self.found.example, program, variants))
        except OtherLengthsError as error:
            places = [program.places(word) for word in program.axes]
            for held in (*places, frozenset().union(*places)):
                try:
                    return self._attempt(held)
                except ExportError:  # the first is the one to tell
                    continue
            raise ExportError(str(error)) from error

    def _attempt(self, held: Held, known: tuple[Any, Program, list[Variant]] | None = None) -> Exported:
        from leanrnn.deploy.check import check
        from leanrnn.deploy.metadata import metadata_for
        from leanrnn.deploy.reasons import drawn
        from leanrnn.deploy.streaming import state_names, traced_stream

        tried: list[tuple[Program, list[Variant]]] = []

        def trace(example: Any) -> Program:
            tried.append(known[1:] if known and known[0] is example else self._traced(example, held))
            return tried[-1][0]

        stream = traced_stream(trace, self.model, self.found)
        program, variants = next(each for each in tried if each[0] is stream.program)
        names, pairs = state_names(stream, self.options.outputs) if stream.pairs else (self.options.outputs, {})
        metadata = metadata_for(self.model, program, self.about) | {"states": pairs}
        written = self.form.write(program, metadata, self.part, replace(self.options, outputs=names))
        run = self._runner()
        try:
            difference = check(run, variants, written.outputs)
        except ExportError as error:
            raise (ExportError(random) if (random := drawn(program.exported.graph_module)) else error) from error
        difference = max(difference, stream.check(run, written.outputs) if pairs else 0.0)
        fixed, notes = dict(program.fixed or {}), (*program.notes, *written.notes)
        return Exported(self.part, program.inputs, written.outputs, written.nodes, difference, pairs, fixed, notes)

    def _traced(self, example: Any, held: Held) -> tuple[Program, list[Variant]]:
        """The model traced, with inputs of all lengths; what the model itself cannot vary is held in the graph too."""
        from leanrnn.deploy.variants import varied

        program = self.form.trace(self.model, example, held)
        found = varied(self.model, program)
        if found.held:
            held = held.union(*(program.places(word) for word in found.held))
            program = self.form.trace(self.model, example, held)
            found = varied(self.model, program)
        return program.renamed(found.same), found.variants

    def _runner(self) -> Runner:
        """The file, ready to run; a runtime that does not take it is no reason for a raw error."""
        from leanrnn.deploy.libraries import in_short

        try:
            return self.form.runner(self.part)
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                f"{self.form.runtime} does not take the written file: {in_short(error)}. No file was kept."
            ) from error


def _refuse(model: nn.Module, example: Any) -> None:
    """What no format can have."""
    import torch

    from leanrnn.deploy.containers import packed_in, tensors_of

    if packed_in(example):
        raise ExportError(
            "the example has a packed sequence, and the inputs of a file are plain tensors. Let the model take the "
            "padded tensor and the lengths, and call pack_padded_sequence in its forward."
        )
    if any(tensor.is_complex() for tensor in tensors_of(example)):
        raise ExportError(
            "the example has complex numbers, which files do not take. Give torch.view_as_real of them, and call "
            "torch.view_as_complex in the model's forward."
        )
    if other := {p.dtype for p in model.parameters() if p.is_floating_point()} - {torch.float32}:
        raise ExportError(
            f"the model has weights of {other.pop()}, and recurrent layers run in float32 there. Call .float() first."
        )
