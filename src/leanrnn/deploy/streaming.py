"""Ten calls, with the states that come out put in again, against the whole sequence at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from leanrnn.deploy.carried import Carried, begun, places_of
from leanrnn.deploy.check import TOLERANCE
from leanrnn.deploy.containers import tensors_of, unused, with_tensors
from leanrnn.deploy.libraries import in_short
from leanrnn.deploy.program import Program
from leanrnn.deploy.tracing import CLASSES
from leanrnn.errors import ExportError
from leanrnn.layers import RecurrentHighway
from leanrnn.running.call import call
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet

__all__ = ["Stream", "state_names", "traced_stream"]

COUNT = 10
Call: TypeAlias = Callable[[list[Tensor]], list[Tensor]]
"""The model, or its file: all tensors that go in, in order; all that come out."""


def traced_stream(trace: Callable[[Any], Program], model: nn.Module, found: Carried) -> Stream:
    """The model as a graph, and which states go round in it: none unless steps one by one are the whole sequence, or
    the user says so."""
    program = trace(found.example)
    one_step = "time" not in program.axes and not any(
        isinstance(m, (*CLASSES, RecurrentHighway)) for m in model.modules()
    )
    if one_step and (more := begun(model, found)) is not None:
        found, program = more, trace(more.example)
    stream = Stream(model, program, places_of(model, found), "time" in program.axes)
    if not stream.pairs or not (why := stream.broken()):
        return stream
    if not found.asked:
        return replace(stream, pairs=())
    calls = replace(stream, whole=False)  # as layers that read beyond a call make of it
    if why := calls.broken():
        raise ExportError(
            f"what the model returns cannot go in again: {why}. Name other states, or none with states={{}}."
        )
    return calls


def state_names(stream: Stream, outputs: Sequence[str] | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of all that comes out, and of the states among it by what they go in as."""
    inputs, count = list(stream.program.inputs), len(stream.program.outputs)
    names = list(outputs or stream.program.outputs)
    if len(names) != count:
        raise ExportError(f"{len(names)} names for {count} outputs. Give one for each.")
    for into, out in stream.pairs if outputs is None else ():
        names[out] = unused(f"{inputs[into]}_out", (*inputs, *names))
    return tuple(names), {inputs[into]: names[out] for into, out in stream.pairs}


@dataclass(frozen=True)
class Stream:
    """A model whose states go round, and ten steps for it."""

    model: nn.Module
    program: Program
    pairs: tuple[tuple[int, int], ...]
    """Positions of an input and of the output that it is in the next call."""
    whole: bool
    """Whether ten steps are one sequence, or only ten calls."""

    def broken(self) -> str:
        """Why it does not hold for the model itself; nothing if it does."""
        try:
            expected, found = self._expected(), self._found(self._called)
        except Exception as error:
            return f"it does not run on {COUNT} steps one by one ({in_short(error)})"
        far = max(
            (_apart(a, b) for row in zip(expected, found, strict=True) for a, b in zip(*row, strict=True)), default=0
        )
        return "" if far <= TOLERANCE else f"{COUNT} steps one by one differ by {far:.1e} from the whole sequence"

    def check(self, run: Call, names: Sequence[str]) -> float:
        """How far the file, fed its own states, is from the model."""
        try:
            found = self._found(run)
        except Exception as error:
            raise ExportError(f"the written file does not run step by step: {in_short(error)}") from error
        worst = 0.0
        for expected, each in zip(self._expected(), found, strict=True):
            for name, a, b in zip(names, expected, each, strict=True):
                if not (far := _apart(a, b)) <= TOLERANCE:
                    raise ExportError(
                        f"fed {COUNT} steps one by one, {name} of the written file differs by {far:.1e} from the "
                        "model. No file was kept. Leave the states alone with states={}."
                    )
                worst = max(worst, far)
        return worst

    def _expected(self) -> list[list[Tensor]]:
        """What the model says to all steps at once, or in ten calls."""
        return [self._called(self._inputs())] if self.whole else self._fed(self._called)

    def _found(self, run: Call) -> list[list[Tensor]]:
        """The same of ten calls."""
        found = self._fed(run)
        if not self.whole:
            return found
        whole, states = self._called(self._inputs()), {out for _, out in self.pairs}
        return [
            [
                parts[-1] if i in states or parts[-1].shape == wanted.shape else _joined(wanted, parts)
                for i, (wanted, parts) in enumerate(zip(whole, zip(*found, strict=True), strict=True))
            ]
        ]

    def _inputs(self) -> list[Tensor]:
        """Ten steps at once, of the numbers of the example."""
        generator = torch.Generator().manual_seed(0)
        found = []
        for tensor, shape in zip(tensors_of(self.program.example), self.program.inputs.values(), strict=True):
            for axis in (i for i, size in enumerate(shape) if size == "time"):
                order = torch.randint(tensor.size(axis), (COUNT,), generator=generator)
                tensor = tensor.index_select(axis, order)
            found.append(tensor)
        return found

    def _pieces(self) -> list[list[Tensor]]:
        """Inputs of the ten calls."""
        shapes = list(self.program.inputs.values())
        if self.whole:
            whole = list(zip(self._inputs(), shapes, strict=True))
            return [[t.narrow(s.index("time"), i, 1) if "time" in s else t for t, s in whole] for i in range(COUNT)]
        first, *rest = tensors_of(self.program.example)
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(first.numel(), generator=generator) for _ in range(COUNT)]
        return [[first.flatten()[order].view(first.shape), *rest] for order in orders]

    def _called(self, tensors: list[Tensor]) -> list[Tensor]:
        example = with_tensors(self.program.example, tensors)
        with quiet(self.model), torch.no_grad():
            return [t.clone() for t in tensors_of(call(self.model, copy_example(example)))]

    def _fed(self, run: Call) -> list[list[Tensor]]:
        """What comes out at every step."""
        found: list[list[Tensor]] = []
        for piece in self._pieces():
            for into, out in self.pairs if found else ():
                piece[into] = found[-1][out]
            found.append(run([t.contiguous() for t in piece]))
        return found


def _joined(whole: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Steps along the axis in which the whole is longer."""
    axis = next(i for i, (a, b) in enumerate(zip(whole.shape, parts[-1].shape, strict=True)) if a != b)
    return torch.cat(list(parts), axis)


def _apart(wanted: Tensor, found: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    if wanted.shape != found.shape:
        return float("inf")
    a, b = wanted.detach().cpu().double(), found.detach().cpu().double()
    if not a.numel() or bool(((a == b) | (a.isnan() & b.isnan())).all()):
        return 0.0
    return float((a - b).abs().max()) / (float(a.abs().max()) or 1.0)
