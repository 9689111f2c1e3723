"""Cut a copy of a model and show that it computes what the zeroed model computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from leanrnn.errors import ShrinkError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.running.compare import difference, run, tolerance
from leanrnn.running.copies import copy_model
from leanrnn.running.user_line import user_line
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.numbers import settle
from leanrnn.surgery.plan import Remembered
from leanrnn.surgery.zeroing import zero_

__all__ = ["Differs", "cut_copy"]

ROUNDING = 1e-9
"""In float64, a difference below this is rounding in the narrower type and no fault of the cut."""


def cut_copy(model: nn.Module, groups: Groups, masks: Masks, example: Any) -> tuple[nn.Module, tuple[Remembered, ...]]:
    """A copy of ``model`` without the components outside ``masks``, and the remembered numbers that had to change.

    Raises what the smaller model raised, or :class:`Differs`, if it is not equal to the zeroed one on ``example``.
    """
    try:
        return _proven(model, groups, masks, example, plain=True)
    except Exception as first:
        try:
            # A forward that holds on to old states needs modules that accept them.
            return _proven(model, groups, masks, example, plain=False)
        except Exception:
            raise first from None


@dataclass(frozen=True, eq=False)
class _Case:
    example: Any
    training: bool
    expected: list[Tensor]


class Differs(Exception):
    """The smaller model gives other numbers than the zeroed one."""

    def __init__(self, apart: float, allowed: float) -> None:
        super().__init__(f"the smaller model differs from the zeroed one by {apart:.1e}, and {allowed:.0e} is allowed")
        self.apart = apart


def _proven(
    model: nn.Module, groups: Groups, masks: Masks, example: Any, plain: bool
) -> tuple[nn.Module, tuple[Remembered, ...]]:
    def zeroed() -> nn.Module:
        copy = copy_model(model)
        zero_(copy, groups, masks)
        return copy

    small = zeroed()
    cases = list(_cases(small, example))
    # What was zeroed is what leaves, so the zeroed copy can become the smaller model.
    cut_(small, groups, masks, plain)
    return small, settle(small, groups, masks, lambda candidate: _check(candidate, cases, zeroed))


def _cases(zeroed: nn.Module, example: Any) -> Iterator[_Case]:
    """What the zeroed model gives in each mode, and for other lengths and batches where it takes them."""
    for training in (False, True) if zeroed.training else (False,):
        try:
            yield _Case(example, training, _run(zeroed, example, training))
        except Exception as error:
            raise ShrinkError(
                f"the model itself raised {type(error).__name__} on the example at {user_line(error)}: {error}. "
                "Pass an example= that model(...) takes."
            ) from error
        for other in _doubled(example):
            try:
                yield _Case(other, training, _run(zeroed, other, training))
            except Exception:  # not an input of this model
                continue


def _run(model: nn.Module, example: Any, training: bool) -> list[Tensor]:
    modes = {module: module.training for module in model.modules()}
    try:
        # A module that was frozen in evaluation mode stays in it.
        return run(model if training else model.eval(), example)
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check(small: nn.Module, cases: Sequence[_Case], zeroed: Callable[[], nn.Module]) -> None:
    for case in cases:
        actual = _run(small, case.example, case.training)
        apart, allowed = difference(case.expected, actual), tolerance(small, case.expected, actual)
        if not apart <= allowed and not (apart < 1 and _is_rounding(small, zeroed, case)):
            raise Differs(apart, allowed)


def _is_rounding(small: nn.Module, zeroed: Callable[[], nn.Module], case: _Case) -> bool:
    """Whether both agree in float64; their own type may be too coarse to tell rounding from a fault."""
    if all(p.dtype == torch.float64 for p in small.parameters()):
        return False
    example = _mapped(lambda t: t.double() if t.is_floating_point() else t, case.example)
    expected = _run(zeroed().double(), example, case.training)
    return difference(expected, _run(copy_model(small).double(), example, case.training)) <= ROUNDING


def _doubled(example: Any) -> Iterator[Any]:
    """The example twice as long along its first and its second axis: another length, another batch."""
    flat, _ = pytree.tree_flatten(example, is_leaf=lambda item: isinstance(item, PackedSequence))
    if not any(isinstance(item, PackedSequence) for item in flat):
        for axis in (0, 1):
            yield _mapped(functools.partial(_twice, axis), example)


def _twice(axis: int, tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor], axis) if tensor.dim() > axis else tensor


def _mapped(change: Callable[[Tensor], Tensor], example: Any) -> Any:
    return pytree.tree_map(lambda item: change(item) if isinstance(item, Tensor) else item, example)
