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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leanrnn.discovery.labels import Value
from tests.support.trial import Case, Mask, Trial, keep, merged, same, source

__all__ = ["kinds_of", "runs", "wrong"]


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


def wrong(case: Case, kinds: str, most: int = 1000) -> list[str]:
    """What the rules claim about a case and is not so; ``most`` is how many components are cut out one by one."""
    sources = [source(t, k) for t, k in zip(case.tensors, kinds, strict=True)]
    uniform = any(k == "c" and bool((t == t.reshape(-1)[:1]).all()) for t, k in zip(sources, kinds, strict=True))
    if uniform or not runs(case, sources):
        return []
    trial = Trial(case, kinds)
    found = [f"{case.name} {kinds}: {text}" for text in _unlabelled(trial)]
    loose = trial.loose()
    tries = [[c] for c in loose[:: 1 + len(loose) // most]] + ([loose[::2], loose[1::2]] if len(loose) > 3 else [])
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
    inputs = [merged(trial.leaving(i, mask)) for i in range(len(trial.tensors))]
    what = "; ".join(
        f"input {i} axis {a} index {np.flatnonzero(g).tolist()}" for i, gone in enumerate(inputs) for a, g in gone
    )
    try:
        outputs = [merged(trial.leaving_results(v, mask)) if v is not None else [] for v in trial.values]
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
        sure = [
            (i, factor, hit)
            for i, value in enumerate(trial.values)
            for factor in (value.factors if value is not None else ())
            if (hit := (factor.labels >= 0) & mask[trial.classes.of[factor.labels]] & (factor.zero >= level)).any()
        ]
        given = trial.zeroed(mask, level)
        results = trial.case.run(given) if sure and not trial.random and runs(trial.case, given) else []
        for i, factor, hit in sure if results else ():
            # Where two components meet, 0/0 may stand; that place leaves with either.
            value = trial.values[i]
            assert value is not None
            others = tuple(f for f in value.factors if not set(f.axes) & set(factor.axes))
            met = merged(trial.leaving_results(replace(value, factors=others), mask))
            place = keep(results[i], met).movedim(factor.axes, tuple(range(len(factor.axes))))
            if not bool((place[torch.from_numpy(hit)] == 0).all()):
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
