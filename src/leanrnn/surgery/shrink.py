"""A new, smaller, dense model, proven equal to the zeroed one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from leanrnn.errors import BudgetError, GroupsError, LeanRNNError, LeanRNNWarning, ShrinkError
from leanrnn.groups.budget import Budget
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.keep import choose
from leanrnn.groups.limits import Limits
from leanrnn.groups.norms import group_norms
from leanrnn.groups.numbers import check_numbers
from leanrnn.groups.within import keep_evenly, keep_within
from leanrnn.groups.wrapped import bare, check_whole, wrapped_like
from leanrnn.running.copies import copy_model
from leanrnn.running.user_line import user_line
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.plan import plan_of
from leanrnn.surgery.proof import Differs, cut_copy

__all__ = ["shrink", "within"]

Indices = NDArray[np.int64]
_TRIES, _NEAR = 5, 0.95  # to meet what is measured, and how near is near enough


def shrink(
    model: nn.Module,
    groups: Groups,
    *,
    keep: Mapping[str, Sequence[int] | Indices] | None = None,
    ratio: float | Mapping[str, float] | None = None,
    keep_widths: Mapping[str, int] | None = None,
    budget: Budget | None = None,
    scores: Mapping[str, Any] | None = None,
    round_to: int = 1,
    verify: bool = True,
    example: Any = None,
) -> nn.Module:
    """A smaller model of the same class that computes what ``model`` computes with the dropped components at zero.

    ``model`` itself stays as it is. Without a wish, dead components are dropped and nothing changes in what the model
    computes. At least one component of every layer stays. ::

        small = leanrnn.shrink(model, groups)
        small = leanrnn.shrink(model, groups, ratio=0.5, round_to=8)
        small = leanrnn.shrink(model, groups, budget=leanrnn.Budget(mult_adds="25%"))

    Arguments:
        keep: indices that stay, by layer name; a layer not named keeps all.
        ratio: share to drop, smallest norms first; one number or one a layer.
        keep_widths: number that stays, largest norms first, by layer name.
        budget: what the smaller model may cost. Without ``scores`` every layer keeps the same part of its components,
            those of the largest norms.
        scores: what every component is worth to a budget, arrays by layer name, comparable between layers. What is
            worth least for what it costs goes. :class:`~leanrnn.Saliency` measures such scores.
        round_to: round the kept number up to a multiple, by adding the largest of the others back.
        verify: compare with the zeroed model, in evaluation mode, in training mode too if the model is in it, and on
            longer and larger inputs where the model takes them; :class:`ShrinkError` if they differ.
        example: the inputs to compare on; those of ``discover`` if left out.
    """
    check_numbers(model, ShrinkError)
    whole, model = model, bare(model)
    bound = Groups(groups.layers).bind(model)
    check_whole(bound.tensors())
    bound.remembered = groups.remembered
    if budget is None and scores is not None:
        raise GroupsError("scores say what goes to hold a budget. Give budget= as well.")
    masks = choose(bound, keep, ratio, keep_widths, round_to)
    if budget is not None:
        if round_to != 1 or any(wish is not None for wish in (keep, ratio, keep_widths)):
            raise GroupsError(
                "a budget chooses the widths. Leave keep, ratio and keep_widths out, and give round_to in it."
            )
        masks = within(bound, budget.limits(groups), scores)
        if all(mask.all() for mask in masks.values()):
            _warn("the model is within the budget as it is: nothing was cut.")
    elif keep is None and ratio is None and keep_widths is None:
        _warn_of_too_little(groups, bound, masks)
    example = groups.example if example is None else example
    if not verify:
        small = copy_model(model)
        cut_(small, bound, masks)
        return wrapped_like(whole, small)
    if example is None:
        raise ShrinkError("there is no example to compare the models on. Pass example=, or verify=False.")
    try:
        return wrapped_like(whole, cut_copy(model, bound, masks, example)[0])
    except LeanRNNError:
        raise
    except Exception as error:
        raise _explained(error) from error


def _warn_of_too_little(groups: Groups, bound: Groups, masks: Masks) -> None:
    """Say so if training has not come to its end, or left nothing dead in a model that nothing was cut out of."""
    if groups.unmet is not None and (message := groups.unmet()):
        _warn(message)
    elif plan_of(bound.model) is None and all(mask.all() for mask in masks.values()):
        norms = {name: float(values.min()) for name, values in group_norms(bound).items()}
        least = min(norms, key=lambda name: norms[name])
        _warn(
            f"nothing was cut: no component is dead. The smallest norm of a group is {norms[least]:.3g}, in {least}; a "
            'dead one has 0. Say how small the model is to be, shrink(..., budget=leanrnn.Budget(mult_adds="25%")), or '
            "train with a budget, a larger strength or a GroupThreshold."
        )


def _warn(message: str) -> None:
    warnings.warn(message, LeanRNNWarning, stacklevel=4)


def within(groups: Groups, limits: Limits, scores: Mapping[str, Any] | None) -> Masks:
    """What stays within the limits; where something is measured, by what was measured of the smaller model itself."""
    if limits.latency is None:
        return _kept(groups, limits, scores)
    found: dict[float, Masks] = {}
    for _ in range(_TRIES):
        masks = _kept(groups, limits, scores)
        small = copy_model(groups.model)
        cut_(small, groups, masks)
        part = limits.correct(small, {name: int(mask.sum()) for name, mask in masks.items()})
        found[part] = masks
        if _NEAR <= part <= 1:
            break
    fast = [part for part in found if part <= 1]
    if not fast:
        raise BudgetError(
            f"as measured, the smaller model takes {min(found):.2f} times the milliseconds of the budget. Raise it, or "
            "give fit_latency more seconds if this machine is busy."
        )
    return found[max(fast)]


def _kept(groups: Groups, limits: Limits, scores: Mapping[str, Any] | None) -> Masks:
    return keep_evenly(limits, group_norms(groups)) if scores is None else keep_within(limits, scores)


def _explained(error: Exception) -> ShrinkError:
    if isinstance(error, Differs):
        return ShrinkError(f"{error}. Discover again with prove=True, which pins what cannot be cut exactly.")
    return ShrinkError(
        f"the smaller model raised {type(error).__name__} at {user_line(error)}: {error}. "
        "Take the width there from a tensor's shape rather than from a number."
    )
