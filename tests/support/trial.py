"""One run of an operator with every index of its inputs labelled, and what discovery's rules said about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leanrnn.discovery.classes import Classes, solve
from leanrnn.discovery.labels import Value
from leanrnn.discovery.propagate import Propagation, propagate
from leanrnn.discovery.recorder import record
from leanrnn.running.call import leaves

__all__ = ["Case", "Mask", "Trial", "keep", "merged", "same", "source"]

Mask = np.ndarray
KINDS = {"0": "buffer", "1": "parameter", "2": "parameter", "u": "constant", "z": "constant", "c": "constant"}
"""What an input is: never zero, a bias, a weight; or a constant: ones, zeros, anything."""


@dataclass
class Case:
    """An operator as a function of tensors alone.

    ``narrow`` stands in for it once the inputs are narrower (a norm that divides by its original width).
    ``literal`` says that it is given sizes or positions as numbers, which would have to change along: it is not cut.
    """

    name: str
    call: Callable[..., Any]
    tensors: tuple[Tensor, ...]
    narrow: Callable[..., Any] | None = None
    literal: bool = False

    def run(self, tensors: Sequence[Tensor], narrow: bool = False) -> list[Tensor]:
        """All results. Integers and truth values come as floating point numbers, so that they can carry labels."""
        call = self.narrow if narrow and self.narrow is not None else self.call
        given = [t.to(o.dtype) if t.dtype != o.dtype else t for t, o in zip(tensors, self.tensors, strict=True)]
        with torch.no_grad():
            return leaves(call(*given))


@dataclass
class Trial:
    """One run of a case with its inputs labelled, and what the rules said."""

    case: Case
    kinds: str
    tensors: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tensors = [source(t, k) for t, k in zip(self.case.tensors, self.kinds, strict=True)]
        named = {str(i): t for i, t in enumerate(self.tensors)}
        tape, results = record(lambda: self.case.run(self.tensors), named, (), leaves)
        for made in tape.sources.values():
            if made.name:
                made.kind = KINDS[self.kinds[int(made.name)]]
        weights = {i for i, s in tape.sources.items() if s.name and self.kinds[int(s.name)] == "2"}
        with mock.patch("leanrnn.discovery.propagate.weights_of", lambda tape: weights):
            self.found: Propagation = propagate(tape)
        self.classes: Classes = solve(self.found, ())
        self.results: list[Tensor] = results
        self.values: list[Value | None] = [self.found.values.get(o) for o in tape.outputs]
        self.carried = self._axes_of(self.found.ties.carried)
        self.never_zeroed = self.carried | self._axes_of(self.found.ties.divisors)
        self.random = any(torch.Tag.nondeterministic_seeded in node.op.tags for node in tape.nodes)
        labelled = "".join("0" if k in "uz" else k for k in self.kinds)
        self.shadow = Trial(self.case, labelled) if labelled != self.kinds else None

    def _axes_of(self, marked: Sequence[NDArray[np.int64]]) -> set[tuple[int, int]]:
        """Inputs and their axes whose labels an operator marked."""
        labels = np.concatenate([*marked, np.zeros(0, np.int64)])
        return {(int(o.name), o.axis) for o in self.found.owners if o.start in labels}

    def loose(self) -> list[int]:
        """Classes of input indices that may leave on their own."""
        own = [np.arange(o.start, o.start + o.size) for o in self.found.owners]
        found = np.unique(self.classes.of[np.concatenate([*own, np.zeros(0, np.int64)])])
        return [int(c) for c in found if not self.classes.pinned[c] and not self.classes.derived[c]]

    def closure(self, classes: Sequence[int]) -> Mask:
        """Everything that leaves with these classes, as a mask over classes."""
        mask = np.zeros(int(self.classes.of.max(initial=-1)) + 2, np.bool_)
        mask[list(classes)] = True
        owner, derived = self.classes.implied
        for _ in range(8):
            mask[derived[mask[owner]]] = True
        return mask

    def leaving(self, tensor: int, mask: Mask) -> list[tuple[int, Mask]]:
        """Axes of an input and which of their indices leave.

        A uniform constant is made as wide as it has to be: what it meets says which of its indices leave.
        """
        if self.kinds[tensor] in "uz" and self.shadow is not None:
            return self.shadow.leaving(tensor, self.shadow.closure(self._in_shadow(mask)))
        found = []
        for o in self.found.owners:
            if o.name == str(tensor):
                gone = mask[self.classes.of[o.start : o.start + o.size]]
                found += [(o.axis, gone)] if gone.any() else []
        return found

    def _in_shadow(self, mask: Mask) -> list[int]:
        """The classes that leave, in the run in which constants have labels too."""
        assert self.shadow is not None
        theirs = {(o.name, o.axis): o.start for o in self.shadow.found.owners}
        labels = [
            theirs[o.name, o.axis] + np.flatnonzero(mask[self.classes.of[o.start : o.start + o.size]])
            for o in self.found.owners
        ]
        return np.unique(self.shadow.classes.of[np.concatenate([*labels, np.zeros(0, np.int64)])]).tolist()

    def leaving_results(self, value: Value, mask: Mask) -> list[tuple[int, Mask]]:
        """Axes of a result and which of their indices leave."""
        found = []
        for factor in value.factors:
            gone = (factor.labels >= 0) & mask[self.classes.of[factor.labels]]
            if not gone.any():
                continue
            for axis in sorted(factor.main):
                others = tuple(i for i, a in enumerate(factor.axes) if a != axis)
                line = gone.any(axis=others)
                if (gone == np.expand_dims(line, others)).all():
                    found.append((axis, line))
                    break
            else:
                raise AssertionError(f"what leaves is no index of any axis of {factor.axes}")
        return found

    def zeroed(self, mask: Mask, level: int) -> list[Tensor]:
        """Inputs in which everything that leaves is zero, in weights (2) or in weights and biases (1)."""
        new = []
        for i, tensor in enumerate(self.tensors):
            if self.kinds[i] in ("1", "2") and int(self.kinds[i]) >= level:
                tensor = tensor.clone()
                for axis, gone in self.leaving(i, mask):
                    if (i, axis) not in self.never_zeroed:
                        tensor.movedim(axis, 0)[torch.from_numpy(gone)] = 0
            new.append(tensor)
        return new


def source(tensor: Tensor, kind: str) -> Tensor:
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    if kind in ("u", "z"):
        tensor = torch.full_like(tensor, float(kind == "u"))
    return tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.double()


def keep(tensor: Tensor, leaving: Sequence[tuple[int, Mask]]) -> Tensor:
    """The tensor without what leaves."""
    for axis, gone in leaving:
        if tensor.shape[axis] == len(gone):
            tensor = tensor.index_select(axis, torch.from_numpy(np.flatnonzero(~gone)))
    return tensor


def merged(leaving: Sequence[tuple[int, Mask]]) -> list[tuple[int, Mask]]:
    """One mask per axis: an index leaves if any of its labels does."""
    axes: dict[int, Mask] = {}
    for axis, gone in leaving:
        axes[axis] = axes[axis] | gone if axis in axes else gone
    return list(axes.items())


def same(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding; not a number equals itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point() and not a.is_complex():
        return torch.equal(a, b)
    return torch.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)
