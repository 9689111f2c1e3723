"""Inputs of lengths nobody traced, such as the model takes: indices stay in what they index, lengths in the time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from typing import Any

import torch
from torch import Tensor, nn

from leanrnn.deploy.containers import tensors_of, with_tensors
from leanrnn.deploy.lengths import words_in
from leanrnn.deploy.libraries import quietly
from leanrnn.deploy.program import Program
from leanrnn.errors import ExportError
from leanrnn.running.call import call
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet

__all__ = ["Variant", "Varied", "varied"]

SIZES = ((1, 2, 7), (2, 3, 11), (5, 1, 4))
"""Lengths of the first, second, third ... axis in every variant, besides the traced ones."""
MOST = 64
"""Ways to fit integers to other lengths that are tried."""
Fit = tuple[str, int, bool] | None
"""How an input of integers goes along with a length: which one, what is added to it to get the largest allowed number,
and whether the largest number of all becomes that one. None: it does not."""


@dataclass(frozen=True)
class Variant:
    """Inputs and what the model makes of them."""

    sizes: dict[str, int]
    """Lengths that differ from the example's by intention; none: it is the example."""
    example: Any
    answer: list[Tensor]


@dataclass
class Varied:
    """What came of varying all lengths."""

    variants: list[Variant]
    held: set[str] = field(default_factory=set)
    """Lengths that the model has as they are in the example only."""
    same: dict[str, str] = field(default_factory=dict)
    """Lengths that vary together with another alone, and which."""


def varied(model: nn.Module, program: Program) -> Varied:
    """The example first, then other lengths. Where one is too short for the model, as for a wide convolution, it is one
    beyond that of the example, or a multiple of it."""
    return _Search(model, program).found


class _Search:
    def __init__(self, model: nn.Module, program: Program) -> None:
        self.model, self.program, self.axes = model, program, _traced(program)
        self.tensors, self.fits = tensors_of(program.example), list[tuple[Fit, ...]]()
        self.same: dict[str, str] = {}
        example = self._answered({}, self.tensors)
        if example is None:
            raise ExportError(
                "the model does not take the same example twice, or returns another number of tensors then. Let it "
                "begin every call anew."
            )
        self.found = Varied([example], same=self.same)
        if self.axes:
            self._vary()

    def _vary(self) -> None:
        self._join()
        for i in range(len(SIZES)):
            ways = self._ways(i)
            whole = next((v for sizes in ways if (v := self._tried(sizes))), None) or self._one_by_one(ways)
            if whole is not None:
                self.found.variants.append(whole)
        moved = {name for each in self.found.variants for name, n in each.sizes.items() if n != self.axes[name]}
        self.found.held |= self.axes.keys() - moved - self.same.keys()

    def _join(self) -> None:
        """Lengths that are alike in the example, and of which one cannot grow alone but all can together, are one."""
        alike = [[n for n in self.axes if self.axes[n] == size] for size in sorted({*self.axes.values()})]
        groups = [tuple(names) for names in alike] + [pair for names in alike for pair in combinations(names, 2)]
        for first, *others in [group for group in groups if len(group) > 1]:
            if self.same.keys() & {first, *others}:
                continue
            grown = self.axes[first] + 1
            if all(self._tried({name: grown}) for name in (first, *others)):
                continue
            if self._tried(dict.fromkeys((first, *others), grown)):
                self.same |= dict.fromkeys(others, first)

    def _ways(self, i: int) -> list[dict[str, int]]:
        """Sizes of a variant: small ones, then beyond those of the example, then multiples."""
        names = [name for name in self.axes if name not in self.same]
        small = {name: SIZES[i][j % 3] + j // 3 for j, name in enumerate(names)}
        beyond = {name: size + self.axes[name] for name, size in small.items()}
        return [small, beyond, {name: (2 + (i + j) % 3) * self.axes[name] for j, name in enumerate(names)}]

    def _one_by_one(self, ways: list[dict[str, int]]) -> Variant | None:
        """Every length at the first size that it can have beside the others as they are in the example; then all."""
        chosen: dict[str, int] = {}
        alone: list[Variant] = []
        for name in ways[0]:
            sizes = [{name: way[name]} for way in ways if way[name] != self.axes[name]]
            if variant := next((v for each in sizes if (v := self._tried(each))), None):
                chosen |= variant.sizes
                alone.append(variant)
        together = self._tried(chosen) if len(chosen) > 1 else None
        if together is None:
            self.found.variants += alone
        return together

    def _tried(self, sizes: Mapping[str, int]) -> Variant | None:
        """Inputs of these lengths, if the model takes them in one way or another."""
        lengths = self.axes | dict(sizes)
        lengths |= {name: lengths[other] for name, other in self.same.items()}
        for fit in dict.fromkeys([*self.fits, *islice(self._possible(), MOST)]):
            generator = torch.Generator().manual_seed(0)
            shapes = zip(self.program.inputs.items(), self.tensors, fit, strict=True)
            made = [t for each in shapes if (t := self._resized(*each, lengths, generator)) is not None]
            whole = len(made) == len(self.tensors)
            if whole and (variant := self._answered(dict(sizes), made)) is not None:
                self.fits = list(dict.fromkeys([fit, *self.fits]))
                return variant
        return None

    def _possible(self) -> Iterator[tuple[Fit, ...]]:
        """Ways in which integers may depend on lengths: not at all first."""

        def of(tensor: Tensor) -> list[Fit]:
            fits: list[Fit] = [None]
            if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
                return fits
            largest = int(tensor.max()) if tensor.numel() else 0
            for name, size in self.axes.items():
                for more in (0, -1):
                    fits += [(name, more, True)] * (largest == size + more)
                    fits += [(name, more, False)] * (largest <= size + more)
            return fits

        yield from product(*map(of, self.tensors))

    def _answered(self, sizes: dict[str, int], tensors: list[Tensor]) -> Variant | None:
        example = with_tensors(self.program.example, tensors)
        try:
            with quiet(self.model), quietly(), torch.no_grad():
                answer = tensors_of(call(self.model, copy_example(example)))
        except Exception:  # of a model at a length it was not made for
            return None
        return Variant(sizes, example, answer) if len(answer) == len(self.program.outputs) else None

    def _resized(
        self, named: tuple[str, tuple[str | int, ...]], tensor: Tensor, fit: Fit, sizes: Mapping[str, int],
        generator: torch.Generator,
    ) -> Tensor | None:  # fmt: skip
        """A tensor of another shape, of numbers that ``tensor`` holds: words stay words."""
        name, shape = named
        if name in self.program.lengths:
            return _lengths(tensor, sizes, generator)
        before = tensor
        for axis, size in enumerate(shape):
            wanted = size if isinstance(size, int) else _value(size, sizes)
            if wanted is None or (wanted and not tensor.size(axis)):
                return None
            if wanted != tensor.size(axis):
                tensor = tensor.index_select(axis, _chosen(tensor, axis, wanted, generator))
        if fit is not None:
            limit = sizes[fit[0]] + fit[1]
            largest = tensor == tensor.max() if tensor.numel() else tensor
            tensor = tensor.clamp(max=limit)
            tensor = torch.where(largest, limit, tensor) if fit[2] and tensor.numel() else tensor
        return tensor if before is tensor else _ordered(tensor, before)


def _chosen(tensor: Tensor, axis: int, wanted: int, generator: torch.Generator) -> Tensor:
    """Which entries along an axis: any, but a mask keeps its ends and its order, so that padding stays behind."""
    last = tensor.size(axis) - 1
    found = torch.randint(last + 1, (wanted,), generator=generator)
    if not tensor.dtype.is_floating_point and wanted:
        found[-1] = last
        found[0] = 0
        found = found.sort().values
    return found


def _lengths(tensor: Tensor, sizes: Mapping[str, int], generator: torch.Generator) -> Tensor:
    longest = sizes.get("time", int(tensor.max()))
    found = torch.randint(1, longest + 1, (sizes.get("batch", len(tensor)),), generator=generator)
    found[0] = longest
    return found.sort(descending=True).values.to(tensor.dtype)  # as models that do not sort expect them


def _ordered(tensor: Tensor, before: Tensor) -> Tensor:
    """Sorted as before, where whole numbers were: models expect lengths, and parts of a graph, in order."""
    if before.dim() != 1 or before.dtype.is_floating_point or before.dtype.is_complex or len(before) < 2:
        return tensor
    for falling in (True, False):
        if torch.equal(before.sort(descending=falling).values, before):
            return tensor.sort(descending=falling).values
    return tensor


def _traced(program: Program) -> dict[str, int]:
    """How long what may vary is in the example: of ``2*length`` the half."""
    known = program.axes
    for shape, tensor in zip(program.inputs.values(), tensors_of(program.example), strict=True):
        for size, length in zip(shape, tensor.shape, strict=True):
            for word in [word for word in words_in(size) if not known.get(word)]:
                fitting = (n for n in range(1, length + 1) if _value(str(size), known | {word: n}) == length)
                known[word] = next(fitting, 0)
    return {name: size for name, size in known.items() if size}


def _value(size: str, sizes: Mapping[str, int]) -> int | None:
    """Of a length such as ``2*time + 1``; None if it cannot be told."""
    if not re.fullmatch(r"[\w\s+*()/-]*", size) or not {*words_in(size)} <= sizes.keys():
        return None
    found = eval(size, {"__builtins__": {}}, dict(sizes))
    return int(found) if found == int(found) and found >= 0 else None
