"""From a model and an example to a graph of torch's operators in which batch and time may have any length."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from leanrnn.deploy.containers import Flat, input_names, output_names, tensors_of
from leanrnn.deploy.examples import grown, longer, runs
from leanrnn.deploy.lengths import Lengths, Place, is_number, place_name, words_in
from leanrnn.deploy.libraries import quietly
from leanrnn.deploy.loops import rolled
from leanrnn.deploy.reasons import untraced
from leanrnn.deploy.tracing import whole_layers
from leanrnn.deploy.values import RELIES, with_values
from leanrnn.errors import ExportError
from leanrnn.running.quiet import quiet

__all__ = ["Program", "capture", "trace"]


FILLED = "Give {} so that the longest sequence is as long as the padding: what the model makes of it counts on that."


@dataclass(frozen=True)
class Program:
    """A traced model."""

    exported: ExportedProgram
    example: Any
    """What it was traced with: no axis that may have any length is of length 1."""
    inputs: dict[str, tuple[str | int, ...]]
    """Names of the tensors that go in, and their axes: a number is fixed, a word may be anything."""
    outputs: tuple[str, ...]
    """Names of the tensors that come out."""
    names: dict[str, str]
    """Torch's symbols for those lengths, and ours."""
    lengths: tuple[str, ...] = ()
    """Inputs that are the lengths of padded sequences."""
    fixed: dict[str, int] | None = None
    """Lengths that one would expect to vary, and that do not."""
    notes: tuple[str, ...] = ()
    """What else has to be known to use it."""

    @property
    def axes(self) -> dict[str, int]:
        """Names of the lengths that may be anything, and how long they are in the example."""
        sizes = [size for shape in self.inputs.values() for size in shape if isinstance(size, str)]
        traced = {size: length for size, length in zip(sizes, self._traced(), strict=True)}
        return {word: traced.get(word, 0) for size in sizes for word in words_in(size)}

    def _traced(self) -> list[int]:
        shapes = zip(self.inputs.values(), tensors_of(self.example), strict=True)
        return [tensor.size(i) for shape, tensor in shapes for i, size in enumerate(shape) if isinstance(size, str)]

    def renamed(self, same: Mapping[str, str]) -> Program:
        """With one name for lengths that only vary together."""

        def new(size: str | int) -> str | int:
            return size if isinstance(size, int) else re.sub(r"\w+", lambda found: same.get(found[0], found[0]), size)

        inputs = {name: tuple(map(new, shape)) for name, shape in self.inputs.items()}
        return replace(self, inputs=inputs, names={key: same.get(word, word) for key, word in self.names.items()})

    def places(self, word: str) -> frozenset[Place]:
        """Where a length stands: the number of an input, and its axis."""
        shapes = enumerate(self.inputs.values())
        return frozenset((i, axis) for i, shape in shapes for axis, s in enumerate(shape) if word in words_in(s))


def trace(model: nn.Module, example: Any, held: frozenset[Place] = frozenset()) -> Program:
    """Follow ``model`` on ``example``. Which lengths may vary is found out on the way; those ``held`` do not."""
    example, result = grown(model, example)
    program, over = _followed(model, example, result, held)
    # The model may have kept a length of the call before, which is fixed if it comes again; or a loop has too few steps
    # to be seen.
    if over - held and runs(model, more := longer(example, over - held, again=True)):
        again, left = _followed(model, more, result, held)
        program = again if len(left) < len(over) else program
    return program


def _followed(model: nn.Module, example: Any, result: Any, held: frozenset[Place]) -> tuple[Program, frozenset[Place]]:
    """The graph, and where a length is fixed in it that the model can vary."""
    names = input_names(model, example)
    outputs = tuple(output_names(result, names))
    flat = Flat(model, example)

    def described(exported: ExportedProgram) -> Program:
        found = Lengths(exported, names)
        return Program(exported, example, found.inputs, outputs, found.names, found.sequences, found.fixed)

    with quiet(model), whole_layers() as layers, quietly():
        exported, held = _captured(flat, tensors_of(example), held, layers.whole)
    program = described(exported)
    over = _open(model, program)
    if over - held and (module := _rolled(flat, exported, tensors_of(example), held)) is not None:
        again = described(module)
        if len(left := _open(model, again)) < len(over):
            program, over = again, left
    relied = layers.relied or exported.graph_module.meta.get(RELIES)
    notes = (FILLED.format(" and ".join(program.lengths) or "the lengths"),) if relied else ()
    return replace(program, fixed=(program.fixed or {}) | _named(program, over | held), notes=notes), over


def capture(
    model: nn.Module, tensors: Iterable[Tensor], held: frozenset[Place] = frozenset(), read: bool = True
) -> ExportedProgram:
    """Torch's own trace of a model that takes tensors alone, in which any length may vary that nothing holds; ``read``:
    the model may read lengths out of its tensors."""
    given = tuple(tensors)
    shapes = [{axis: Dim.AUTO for axis in range(t.dim()) if (i, axis) not in held} for i, t in enumerate(given)]
    with contextlib.redirect_stderr(io.StringIO()):  # torch prints the graph that it could not finish
        kinds = [each.kind for each in inspect.signature(model.forward).parameters.values()]
        together = inspect.Parameter.VAR_POSITIONAL in kinds
        axes = (tuple(shapes),) if together else tuple(shapes)

        def traced() -> ExportedProgram:
            return torch.export.export(model, given, dynamic_shapes=axes, strict=False)

        return with_values(traced) if read else traced()


def _captured(
    flat: Flat, tensors: list[Tensor], held: frozenset[Place], whole: Callable[[], Any]
) -> tuple[ExportedProgram, frozenset[Place]]:
    """The trace that holds the fewest lengths. What is asked of the longest sequence of a packed one can often be
    answered if it is as long as the padding; what is asked of a length, if that is the one of the example."""
    everything = frozenset((i, axis) for i, tensor in enumerate(tensors) for axis in range(tensor.dim()))
    try:
        return capture(flat, tensors, held), held
    except ExportError:
        raise
    except Exception as error:
        first = error
    with whole():
        for chosen in (held, everything):
            try:
                # Where all is fixed, any number of the example would be as long as some axis.
                known = capture(flat, tensors, chosen, read=chosen == held), chosen
                break
            except Exception:  # the first error is the one to tell
                continue
        else:
            raise ExportError(untraced(first)) from first
        if chosen == held:
            return known
        for size in sorted({tensors[i].size(axis) for i, axis in everything}):
            chosen = held | {(i, axis) for i, axis in everything if tensors[i].size(axis) == size}
            try:
                return capture(flat, tensors, chosen), chosen
            except Exception:
                continue
    return known


def _rolled(
    flat: Flat, exported: ExportedProgram, tensors: list[Tensor], held: frozenset[Place]
) -> ExportedProgram | None:
    """The same with its loop over time as a scan, traced again; None if that cannot be done."""
    try:
        with quietly():
            module = rolled(exported.module(check_guards=False))
            return None if module is None else capture(module, tensors, held)
    except Exception:  # of torch's scan, which takes fewer programs than Python
        return None


def _open(model: nn.Module, program: Program) -> frozenset[Place]:
    """Where a length is fixed in the graph that the model itself can vary: a loop over time in Python is as long there
    as it was in the example."""
    shapes = zip(program.inputs.values(), tensors_of(program.example), strict=True)
    lengths = {(i, axis): n for i, (_, tensor) in enumerate(shapes) for axis, n in enumerate(tensor.shape) if n > 1}
    numbers = {
        (i, axis) for i, shape in enumerate(program.inputs.values()) for axis, s in enumerate(shape) if is_number(s)
    }
    found: set[Place] = set()
    for size in dict.fromkeys(lengths[place] for place in lengths if place in numbers):
        alike = [place for place in lengths if lengths[place] == size]
        fixed = [place for place in alike if place in numbers]
        # All of that length that are fixed, one of them, or one with others that are as long and vary.
        rest = [place for place in alike if place not in numbers]
        for chosen in dict.fromkeys([tuple(fixed), *((place,) for place in fixed), *((p, *rest) for p in fixed)]):
            if not found.issuperset(numbers.intersection(chosen)) and runs(model, longer(program.example, chosen)):
                found.update(numbers.intersection(chosen))
    return frozenset(found)


def _named(program: Program, places: Iterable[Place]) -> dict[str, int]:
    """What to call lengths that are fixed: what the graph reads step by step is the time, others stand somewhere."""
    known, tensors, found = dict(program.fixed or {}), tensors_of(program.example), dict[str, int]()
    for i, axis in sorted(places):
        size = tensors[i].size(axis)
        if size > 1 and size not in known.values():
            known[place_name(program.exported, list(program.inputs)[i], axis, size)] = size
    return found | known
