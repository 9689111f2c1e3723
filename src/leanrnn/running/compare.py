"""The numbers a model gives, and how far two runs are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leanrnn.running.call import call, leaves
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import Constant, quiet

__all__ = ["TOLERANCE", "difference", "run", "tolerance"]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-2}
"""How far a cut model may be from the zeroed one, relative to the largest number of an output."""


def run(model: nn.Module, example: Any) -> list[Tensor]:
    """The numbers ``model`` gives for ``example``, with all randomness fixed; the model is left as it was.

    ``example`` is a tensor, a tuple of positional inputs or a mapping of keyword inputs::

        expected = run(zeroed, example)
        assert difference(expected, run(small, example)) < 1e-12
    """
    with quiet(model), torch.no_grad(), Constant():  # type: ignore[no-untyped-call]
        # States of unequal widths become one leaf, of one axis less than the stacked state, so never taken for it.
        found = leaves(call(model, copy_example(example)), lambda states: [torch.cat(tuple(states), dim=-1)])
    return [leaf for leaf in found if leaf.is_floating_point() or leaf.is_complex()]


def difference(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> float:
    """Largest difference between two runs, relative to the largest number of each leaf.

    Leaves of unequal shape are recurrent states that got narrower and are left out. Infinite if the runs have unequal
    numbers of leaves, none of equal shape, or differ in where they are not finite.
    """
    pairs = [(a, b) for a, b in zip(expected, actual, strict=False) if a.shape == b.shape]
    if len(expected) != len(actual) or not pairs:
        return float("inf")
    return max(_apart(a, b) for a, b in pairs)


def tolerance(model: nn.Module, *runs: Sequence[Tensor]) -> float:
    """The tolerance for the least exact type among the parameters of ``model`` and the results."""
    tensors = [*model.parameters(), *(leaf for found in runs for leaf in found)]
    return max((TOLERANCE.get(t.dtype, 0.0) for t in tensors), default=0.0) or TOLERANCE[torch.float32]


def _apart(a: Tensor, b: Tensor) -> float:
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
