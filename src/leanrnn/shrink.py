"""A new, smaller, dense model, proven equal to the zeroed one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from leanrnn.choose import choose
from leanrnn.copying import copy_model, user_line
from leanrnn.errors import ShrinkError
from leanrnn.groups import Groups
from leanrnn.remember import settle
from leanrnn.surgery import Masks, cut_
from leanrnn.verify import difference, run, tolerance, zero_

__all__ = ["shrink"]

Indices = NDArray[np.int64]
ROUNDING = 1e-9
"""In float64, a difference below this is rounding in the narrower type and no fault of the cut."""


def shrink(
    model: nn.Module,
    groups: Groups,
    *,
    keep: Mapping[str, Sequence[int] | Indices] | None = None,
    ratio: float | Mapping[str, float] | None = None,
    keep_widths: Mapping[str, int] | None = None,
    round_to: int = 1,
    verify: bool = True,
    example: Any = None,
) -> nn.Module:
    """A smaller model of the same class that computes what ``model`` computes with the dropped components at zero.

    ``model`` itself stays as it is. Without a wish, dead components are dropped and nothing changes in what the model
    computes. At least one component of every layer stays. ::

        small = leanrnn.shrink(model, groups)
        small = leanrnn.shrink(model, groups, ratio=0.5, round_to=8)

    Arguments:
        keep: indices that stay, by layer name; a layer not named keeps all.
        ratio: share to drop, smallest norms first; one number or one a layer.
        keep_widths: number that stays, largest norms first, by layer name.
        round_to: round the kept number up to a multiple, by adding the largest of the others back.
        verify: compare with the zeroed model, in evaluation mode, in training mode too if the model is in it, and on
            longer and larger inputs where the model takes them; :class:`ShrinkError` if they differ.
        example: the inputs to compare on; those of ``discover`` if left out.
    """
    bound = Groups(groups.layers).bind(model)
    bound.remembered = groups.remembered
    masks = choose(bound, keep, ratio, keep_widths, round_to)
    example = groups.example if example is None else example
    if not verify:
        small = copy_model(model)
        cut_(small, bound, masks)
        return small
    if example is None:
        raise ShrinkError("there is no example to compare the models on. Pass example=, or verify=False.")
    try:
        return _proven(model, bound, masks, example, plain=True)
    except Exception as error:
        # A forward that holds on to states of the old width runs on modules that accept them.
        try:
            return _proven(model, bound, masks, example, plain=False)
        except Exception:
            raise _explained(error) from error


@dataclass(frozen=True, eq=False)
class _Case:
    example: Any
    training: bool
    expected: list[Tensor]


class _Differs(Exception):
    def __init__(self, apart: float, allowed: float) -> None:
        super().__init__(f"the smaller model differs from the zeroed one by {apart:.1e}, and {allowed:.0e} is allowed")
        self.apart = apart


def _proven(model: nn.Module, groups: Groups, masks: Masks, example: Any, plain: bool) -> nn.Module:
    def zeroed() -> nn.Module:
        copy = copy_model(model)
        zero_(copy, groups, masks)
        return copy

    small = zeroed()
    cases = list(_cases(small, example))
    # What was zeroed is what leaves, so the zeroed copy can become the smaller model.
    cut_(small, groups, masks, plain)
    settle(small, groups, masks, lambda candidate: _check(candidate, cases, zeroed))
    return small


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
            raise _Differs(apart, allowed)


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


def _explained(error: Exception) -> ShrinkError:
    if isinstance(error, ShrinkError):
        return error
    if isinstance(error, _Differs):
        return ShrinkError(f"{error}. Discover again with prove=True, which pins what cannot be cut exactly.")
    return ShrinkError(
        f"the smaller model raised {type(error).__name__} at {user_line(error)}: {error}. "
        "Take the width there from a tensor's shape rather than from a number."
    )
