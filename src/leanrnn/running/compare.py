"""The numbers a model gives, and how far two runs are apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from leanrnn.running.call import call, leaves
from leanrnn.running.choices import Choices
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import Constant, quiet

__all__ = ["TOLERANCE", "Numbers", "difference", "is_floating", "run", "tolerance"]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-2}
"""How far a cut model may be from the zeroed one, relative to the largest number of an output."""


class Numbers(list[Tensor]):
    """The numbers a call gave; ``run(model, example).choices``."""

    choices: Sequence[Tensor] = ()
    """Where the result is integers alone: what they were chosen from, which shows a difference long before they do."""

    @property
    def exact(self) -> bool:
        """Whether there are integers only, such as the tags of a decoder."""
        return not any(map(is_floating, self))


def run(model: nn.Module, example: Any) -> Numbers:
    """The numbers ``model`` gives for ``example``, with all randomness fixed; the model is left as it was.

    ``example`` is a tensor, a tuple of positional inputs or a mapping of keyword inputs::

        expected = run(zeroed, example)
        assert difference(expected, run(small, example)) < 1e-12
    """
    found = _numbers(model, example, None)
    if not found.exact:
        return found
    choices = Choices()
    found = _numbers(model, example, choices)
    found.choices = choices.seen
    return found


def _numbers(model: nn.Module, example: Any, choices: Choices | None) -> Numbers:
    with quiet(model), torch.no_grad(), Constant(), choices or nullcontext():  # type: ignore[no-untyped-call]
        result = call(model, copy_example(example))
        # States of unequal widths become one leaf, of one axis less than the stacked state, so never taken for it.
        found = Numbers(leaves(result, lambda states: [torch.cat(tuple(states), dim=-1)]))
    if found.exact:
        # Numbers of Python are part of the result only where nothing else is: beside a result they may be widths.
        items = pytree.tree_leaves(result)
        plain = [item for item in items if isinstance(item, int | float | np.number)]
        found += [torch.from_numpy(np.asarray(plain))] if plain else []
        found += [
            torch.as_tensor(item) for item in items if isinstance(item, np.ndarray) and item.dtype.kind in "biufc"
        ]
    return found


def is_floating(leaf: Tensor) -> bool:
    """Whether a tensor holds numbers that rounding touches."""
    return leaf.is_floating_point() or leaf.is_complex()


def difference(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> float:
    """Largest difference between two runs, relative to the largest number of each leaf; of integers, the share that
    differs.

    Leaves of unequal shape are recurrent states that got narrower and are left out. Infinite if the runs have unequal
    numbers of leaves, none of equal shape, or differ in where they are not finite.
    """
    pairs = _alike(expected, actual)
    shown = [a for a, _ in pairs if is_floating(a)] if any(map(is_floating, expected)) else pairs
    more = _alike(getattr(expected, "choices", ()), getattr(actual, "choices", ()))
    if len(expected) != len(actual) or not (shown or (more and not expected)):
        return float("inf")
    return max(_apart(a, b) for a, b in (*pairs, *more))


def _alike(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """What can be compared: leaf by leaf where there are equally many, those of equal shape."""
    if len(expected) != len(actual):
        return []
    return [(a, b) for a, b in zip(expected, actual, strict=True) if a.shape == b.shape]


def tolerance(model: nn.Module, *runs: Iterable[Tensor]) -> float:
    """The tolerance for the least exact type among the parameters of ``model`` and the results."""
    tensors = [*model.parameters(), *(leaf for found in runs for leaf in found)]
    return max((TOLERANCE.get(t.dtype, 0.0) for t in tensors), default=0.0) or TOLERANCE[torch.float32]


def _apart(a: Tensor, b: Tensor) -> float:
    if not is_floating(a) and not is_floating(b):
        return float((a != b.to(a.device)).double().mean()) if a.numel() else 0.0
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b.to(a.device)))
    a, b = a.double(), b.double()
    for odd in (torch.isnan, torch.isposinf, torch.isneginf):
        if not torch.equal(odd(a), odd(b)):
            return float("inf")
    sound = torch.isfinite(a)
    if not bool(sound.any()):
        return 0.0
    a, b = a[sound], b[sound]
    return float((a - b).abs().max()) / (float(a.abs().max()) or 1.0)
