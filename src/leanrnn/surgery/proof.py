"""Cut a copy of a model and show that it computes what the zeroed model computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from leanrnn.errors import ShrinkError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.running.compare import Numbers, difference, run, tolerance
from leanrnn.running.copies import copy_model
from leanrnn.running.refused import refused
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.numbers import settle
from leanrnn.surgery.plan import Remembered
from leanrnn.surgery.vary import Longer, longer_examples, mapped, nudged
from leanrnn.surgery.zeroing import zero_, zeroed_example

__all__ = ["Differs", "cut_copy"]

ROUNDING = 1e-9
"""In float64, a difference below this is rounding in the narrower type and no fault of the cut."""

STEADY = 10
"""How many times what rounding does to the zeroed model a difference may be, on an example that nobody gave."""


def cut_copy(model: nn.Module, groups: Groups, masks: Masks, example: Any) -> tuple[nn.Module, tuple[Remembered, ...]]:
    """A copy of ``model`` without the components outside ``masks``, and the remembered numbers that had to change.

    Raises what the smaller model raised, or :class:`Differs`, if it is not equal to the zeroed one on ``example``.
    """
    example = zeroed_example(example, groups, masks)
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
    expected: Numbers
    longer: Longer | None = None
    """How a case was made that is not the user's example."""


class Differs(Exception):
    """The smaller model gives other numbers than the zeroed one."""

    def __init__(self, apart: float, allowed: float) -> None:
        super().__init__(f"the smaller model differs from the zeroed one by {apart:.1e}, and {allowed:.0e} is allowed")
        self.apart = apart
        self.effect = f"changes the result by {apart:.1e}"
        if apart == float("inf"):
            self.effect = "changes which numbers of the result are finite, or leaves none of its shape to compare"


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
            raise ShrinkError(refused(zeroed, example, error)) from error
        for ways in longer_examples(example):
            for longer in ways:
                try:
                    yield _Case(longer(2), training, _run(zeroed, longer(2), training), longer)
                    break
                except Exception:  # not an input of this model
                    continue


def _run(model: nn.Module, example: Any, training: bool) -> Numbers:
    # A program that was frozen has no mode any more.
    modes = {module: module.training for module in model.modules() if hasattr(module, "training")}
    try:
        # A module that was frozen in evaluation mode stays in it.
        return run(model if training else model.eval(), example)
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check(small: nn.Module, cases: Sequence[_Case], zeroed: Callable[[], nn.Module]) -> None:
    for case in cases:
        try:
            _compare(small, case, zeroed)
        except Exception as error:
            if case.longer is None or _is_faulty(small, case, zeroed, error):
                raise


def _compare(small: nn.Module, case: _Case, zeroed: Callable[[], nn.Module]) -> None:
    actual = _run(small, case.example, case.training)
    apart, allowed = difference(case.expected, actual), tolerance(small, case.expected, actual)
    if not apart <= allowed and not (apart <= 1 and _is_rounding(small, zeroed, case)):
        raise Differs(apart, allowed)


def _is_faulty(small: nn.Module, case: _Case, zeroed: Callable[[], nn.Module], error: Exception) -> bool:
    """Whether a longer example, which nobody gave, shows a fault of the cut.

    It does not where the zeroed model itself answers a touch of rounding with as large a change, and where it is an
    input by the chance of equal numbers (two times a batch of three is a width of six): then three times is none, or
    passes.
    """
    assert case.longer is not None
    if isinstance(error, Differs):
        touched = _run(zeroed(), nudged(case.example), case.training)
        if error.apart <= STEADY * difference(case.expected, touched):
            return False
    try:
        expected = _run(zeroed(), case.longer(3), case.training)
    except Exception:  # not an input of this model
        return False
    try:
        _compare(small, _Case(case.longer(3), case.training, expected), zeroed)
        return False
    except Exception:
        return True


def _is_rounding(small: nn.Module, zeroed: Callable[[], nn.Module], case: _Case) -> bool:
    """Whether both agree in float64; their own type may be too coarse to tell rounding from a fault."""
    if all(p.dtype == torch.float64 for p in small.parameters()):
        return False
    example = mapped(lambda t: t.double() if t.is_floating_point() else t, case.example)
    try:
        expected = _run(zeroed().double(), example, case.training)
        return difference(expected, _run(copy_model(small).double(), example, case.training)) <= ROUNDING
    except Exception:  # a forward may insist on its own type
        return False
