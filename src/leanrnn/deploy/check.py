"""Run a written file at lengths nobody traced, and compare it with the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from leanrnn.deploy.formats.base import Runner
from leanrnn.deploy.libraries import in_short
from leanrnn.deploy.program import Program, tensors_of
from leanrnn.errors import ExportError
from leanrnn.running.call import call, leaves
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet

__all__ = ["TOLERANCE", "check", "variants"]

TOLERANCE = 1e-4
"""How far numbers of single precision may be apart, relative to the largest of an output."""
SIZES = ((1, 2, 7), (2, 3, 11), (5, 1, 4))
"""Lengths of the first, second, third ... axis in every variant, besides the traced ones."""


def check(run: Runner, model: nn.Module, program: Program, outputs: Sequence[str]) -> float:
    """The largest difference over all variants; an error if it is too large."""
    worst = 0.0
    for sizes, example, expected in _answered(model, program):
        lengths = ", ".join(f"{name} {size}" for name, size in sizes.items()) or "the example"
        try:
            found = run(tensors_of(copy_example(example)))
        except Exception as error:
            raise ExportError(f"the written file does not run with {lengths}: {in_short(error)}") from error
        for name, a, b in zip(outputs, expected, found, strict=True):
            worst = max(worst, _compare(name, a, b, lengths))
    return worst


def _answered(model: nn.Module, program: Program) -> Iterator[tuple[dict[str, int], Any, list[Tensor]]]:
    """Variants with what the model answers. Where a length is too short for it, as for a wide convolution, it is one
    beyond that of the example."""
    beyond = variants(program, longer=True)
    for sizes, example in variants(program):
        other = next(beyond)
        try:
            yield sizes, example, _answer(model, example)
        except ExportError:
            if not sizes:
                raise
            yield *other, _answer(model, other[1])


def _answer(model: nn.Module, example: Any) -> list[Tensor]:
    try:
        with quiet(model), torch.no_grad():
            return leaves(call(model, copy_example(example)))
    except Exception as error:
        raise ExportError(
            f"the model itself does not run at other lengths than the example's: {in_short(error)}"
        ) from error


def variants(program: Program, longer: bool = False) -> Iterator[tuple[dict[str, int], Any]]:
    """Inputs of other lengths, made of the numbers of the example; the example itself comes first. ``longer`` adds the
    lengths of the example to them."""
    yield {}, program.example
    generator = torch.Generator().manual_seed(0)
    leaves_, structure = pytree.tree_flatten(program.example)
    for choice in SIZES if program.axes else ():
        sizes = {name: choice[i % len(choice)] + i // len(choice) for i, name in enumerate(program.axes)}
        sizes = {name: size + (_traced(program, name) if longer else 0) for name, size in sizes.items()}
        shapes, names = iter(program.inputs.values()), iter(program.inputs)
        yield (
            sizes,
            pytree.tree_unflatten(
                [
                    _resized(leaf, next(shapes), sizes, next(names) in program.lengths, generator)
                    if isinstance(leaf, Tensor)
                    else leaf
                    for leaf in leaves_
                ],
                structure,
            ),
        )


def _traced(program: Program, name: str) -> int:
    """How long an axis is in the example."""
    shapes = zip(program.inputs.values(), tensors_of(program.example), strict=True)
    return next((t.size(shape.index(name)) for shape, t in shapes if name in shape), 0)


def _resized(
    tensor: Tensor, shape: tuple[str | int, ...], sizes: Mapping[str, int], lengths: bool, generator: torch.Generator
) -> Tensor:
    """A tensor of another shape, of numbers that ``tensor`` holds: words stay words."""
    if lengths:
        longest = sizes.get("time", int(tensor.max()))
        found = torch.randint(1, longest + 1, (sizes.get("batch", len(tensor)),), generator=generator)
        found[0] = longest
        return found.sort(descending=True).values.to(tensor.dtype)  # as models that do not sort expect them
    for axis, size in enumerate(shape):
        wanted = size if isinstance(size, int) else _value(size, sizes)
        if wanted != tensor.size(axis):
            tensor = tensor.index_select(axis, torch.randint(tensor.size(axis), (wanted,), generator=generator))
    return tensor


def _value(size: str, sizes: Mapping[str, int]) -> int:
    """Of a length such as ``2*time + 1``."""
    if not re.fullmatch(r"[\w\s+*()-]*", size):
        raise ExportError(f"an input has the length {size}, which cannot be varied. Give another example.")
    return int(eval(size, {"__builtins__": {}}, dict(sizes)))


def _compare(name: str, expected: Tensor, found: Tensor, lengths: str) -> float:
    expected = expected.detach().cpu()
    if expected.shape != found.shape:
        raise ExportError(
            f"with {lengths}, {name} has the shape {tuple(found.shape)} in the written file and "
            f"{tuple(expected.shape)} in the model. No file was kept."
        )
    if not expected.numel():
        return 0.0
    scale = float(expected.double().abs().max()) or 1.0
    apart = float((expected.double() - found.double()).abs().max()) / scale
    if not apart <= TOLERANCE:  # also if it is not a number
        raise ExportError(
            f"with {lengths}, {name} of the written file differs by {apart:.1e} from the model. No file was kept."
        )
    return apart
