"""The truth about an operator, found by running it, and what discovery's rules claim about it.

Every index of every axis of every input gets a label, as discovery gives them. What the rules say is then tried on
numbers:

- **cut**: what may leave is cut out of all inputs; the operator must return its old result without the same indices.
- **reach**: where nothing needs to be zero, changing an index may change only the results that leave with it.
- **zero**: where the rules say that a result is zero once the component is, it is.
- **scale**: weights that only carry a direction may be scaled without anybody noticing.
- **same**: an axis of a result without labels looks the same at every index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from leanrnn.discovery.classes import Classes, solve
from leanrnn.discovery.labels import Value
from leanrnn.discovery.propagate import Propagation, propagate
from leanrnn.discovery.tape import record
from leanrnn.surgery.verify import leaves

__all__ = ["Case", "Trial", "kinds_of", "runs", "same", "wrong"]

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
        self.tensors = [_source(t, k) for t, k in zip(self.case.tensors, self.kinds, strict=True)]
        named = {str(i): t for i, t in enumerate(self.tensors)}
        tape, results = record(lambda: self.case.run(self.tensors), named, (), leaves)
        for source in tape.sources.values():
            if source.name:
                source.kind = KINDS[self.kinds[int(source.name)]]
        weights = {i for i, s in tape.sources.items() if s.name and self.kinds[int(s.name)] == "2"}
        with mock.patch("leanrnn.discovery.propagate.weights_of", lambda tape: weights):
            self.found: Propagation = propagate(tape)
        self.classes: Classes = solve(self.found, ())
        self.results: list[Tensor] = results
        self.values: list[Value | None] = [self.found.values.get(o) for o in tape.outputs]
        carried = np.concatenate([*self.found.ties.carried, np.zeros(0, np.int64)])
        self.carried = {(int(o.name), o.axis) for o in self.found.owners if o.start in carried}
        self.random = any(torch.Tag.nondeterministic_seeded in node.op.tags for node in tape.nodes)
        labelled = "".join("0" if k in "uz" else k for k in self.kinds)
        self.shadow = Trial(self.case, labelled) if labelled != self.kinds else None

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
                    if (i, axis) not in self.carried:
                        tensor.movedim(axis, 0)[torch.from_numpy(gone)] = 0
            new.append(tensor)
        return new


def _source(tensor: Tensor, kind: str) -> Tensor:
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


def _merged(leaving: Sequence[tuple[int, Mask]]) -> list[tuple[int, Mask]]:
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


def kinds_of(case: Case) -> Iterator[str]:
    """Which inputs are weights, biases, constants: all alike, and each in turn unlike the others."""
    number = [t.is_floating_point() or t.is_complex() for t in case.tensors]
    count = len(number)

    def spell(kinds: Sequence[str]) -> str:
        return "".join(k if n or k in "0c" else "0" for k, n in zip(kinds, number, strict=True))

    tried = [spell([k] * count) for k in "012"]
    for i in range(count):
        others = ["02", "20", "12", "21", "u0", "z0", "c0", "c2", "u2"] if count > 1 else ["z0"]
        tried += [spell([mine if j == i else rest for j in range(count)]) for mine, rest in others]
    yield from dict.fromkeys(tried)


def wrong(case: Case, kinds: str) -> list[str]:
    """What the rules claim about a case and is not so."""
    sources = [_source(t, k) for t, k in zip(case.tensors, kinds, strict=True)]
    uniform = any(k == "c" and bool((t == t.reshape(-1)[:1]).all()) for t, k in zip(sources, kinds, strict=True))
    if uniform or not runs(case, sources):
        return []
    trial = Trial(case, kinds)
    found = [f"{case.name} {kinds}: {text}" for text in _unlabelled(trial)]
    loose = trial.loose()
    tries = [[c] for c in loose] + ([loose[::2], loose[1::2]] if len(loose) > 3 else [])
    for classes in tries:
        mask = trial.closure(classes)
        texts = list(_try(trial, classes, mask))
        found += [f"{case.name} {kinds}: {text}" for text in texts]
    return found


def runs(case: Case, tensors: Sequence[Tensor]) -> bool:
    """Not every operator takes any numbers: a matrix of zeros has no inverse."""
    try:
        case.run(tensors)
    except RuntimeError:
        return False
    return True


def _try(trial: Trial, classes: Sequence[int], mask: Mask) -> Iterator[str]:
    inputs = [_merged(trial.leaving(i, mask)) for i in range(len(trial.tensors))]
    what = "; ".join(
        f"input {i} axis {a} index {np.flatnonzero(g).tolist()}" for i, gone in enumerate(inputs) for a, g in gone
    )
    try:
        outputs = [_merged(trial.leaving_results(v, mask)) if v is not None else [] for v in trial.values]
    except AssertionError as error:
        yield f"without {what}: {error}"
        return
    yield from (f"with {what} zero, {text}" for text in _zeros(trial, mask))
    if any(g.all() for gone in (*inputs, *outputs) for _, g in gone) or trial.random or trial.case.literal:
        return
    if trial.shadow is not None and trial.shadow.classes.pinned[trial._in_shadow(mask)].any():
        return  # what a constant says may depend on how wide it is made (a sum of ones): only a proof can tell
    level = 1 if trial.classes.needs_zero_bias[list(classes)].any() else 2
    given = trial.zeroed(mask, level)
    if not runs(trial.case, given):
        return
    before = trial.case.run(given)
    try:
        after = trial.case.run([keep(t, gone) for t, gone in zip(given, inputs, strict=True)], narrow=True)
    except Exception as error:
        if trial.shadow is None:  # nobody can make every constant as wide as it has to be
            yield f"without {what}: {type(error).__name__}: {str(error).splitlines()[0]}"
        return
    if len(after) != len(before):
        yield f"without {what}: {len(after)} results instead of {len(before)}"
    for i, (old, new, gone) in enumerate(zip(before, after, outputs, strict=False)):
        old, new = _stretched(trial.values[i], keep(old, gone), new)
        if not same(old, new):
            yield f"without {what}: result {i} is {tuple(new.shape)} and differs, expected {tuple(old.shape)}"
    if set(trial.kinds) <= {"0", "c"}:
        yield from (f"after {what} changed, {text}" for text in _reached(trial, inputs, outputs))
    if trial.carried:
        yield from (f"after {what} was scaled, {text}" for text in _scaled(trial, mask))


def _stretched(value: Value | None, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """An axis without labels may have any length: one index of it is enough."""
    for axis in range(old.ndim) if value is not None and old.ndim == new.ndim else ():
        if not any(axis in f.axes for f in value.factors) and old.shape[axis] != new.shape[axis]:
            old, new = old.narrow(axis, 0, 1), new.narrow(axis, 0, 1)
    return old, new


def _reached(trial: Trial, inputs: list[Any], outputs: list[Any]) -> Iterator[str]:
    changed = []
    for tensor, original, gone in zip(trial.tensors, trial.case.tensors, inputs, strict=True):
        new = tensor.clone()
        for axis, g in gone if tensor.dtype == original.dtype else ():
            new.movedim(axis, 0)[torch.from_numpy(g)] *= 0.7
        changed.append(new)
    for i, (old, new, gone) in enumerate(zip(trial.results, trial.case.run(changed), outputs, strict=True)):
        if not same(keep(old, gone), keep(new, gone)):
            yield f"result {i} changed where it stays"


def _scaled(trial: Trial, mask: Mask) -> Iterator[str]:
    scaled = [t.clone() for t in trial.tensors]
    for i, axis in trial.carried:
        for a, gone in trial.leaving(i, mask):
            if a == axis:
                scaled[i].movedim(axis, 0)[torch.from_numpy(gone)] *= 3
    for k, (old, new) in enumerate(zip(trial.results, trial.case.run(scaled), strict=True)):
        if not same(old, new):
            yield f"result {k} changed"


def _zeros(trial: Trial, mask: Mask) -> Iterator[str]:
    for level in (2, 1):
        given = trial.zeroed(mask, level)
        results = trial.case.run(given) if not trial.random and runs(trial.case, given) else []
        for i, (result, value) in enumerate(zip(results, trial.values, strict=False)):
            for factor in value.factors if value is not None else ():
                # Where two components meet, 0/0 may stand; that place leaves with either.
                others = [f for f in value.factors if not set(f.axes) & set(factor.axes)]
                met = trial.leaving_results(replace(value, factors=tuple(others)), mask)
                sure = (factor.labels >= 0) & mask[trial.classes.of[factor.labels]] & (factor.zero >= level)
                place = keep(result, _merged(met)).movedim(factor.axes, tuple(range(len(factor.axes))))
                if not bool((place[torch.from_numpy(sure)] == 0).all()):
                    yield f"result {i} is not, on axes {factor.axes} (flag {level})"


def _unlabelled(trial: Trial) -> Iterator[str]:
    for i, (result, value) in enumerate(zip(trial.results, trial.values, strict=True)):
        if value is None:
            yield f"result {i} was given no value"
            continue
        if value.zero and bool((result != 0).any()):
            yield f"result {i} is not zero"
        # Constants laid side by side (a bias of zeros and ones) are taken for one.
        for axis in range(result.ndim) if not trial.random and not set(trial.kinds) & {"u", "z"} else ():
            first = result.narrow(axis, 0, min(1, result.shape[axis]))
            if not any(axis in f.axes for f in value.factors) and not same(result, first.expand_as(result)):
                yield f"result {i} has no labels on axis {axis} and differs along it"
