"""A new, smaller, dense model, proven equal to the zeroed one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from leanrnn.errors import GroupsError, LeanRNNError, ShrinkError
from leanrnn.groups.budget import Budget
from leanrnn.groups.groups import Groups
from leanrnn.groups.keep import choose
from leanrnn.groups.norms import norm_shares
from leanrnn.groups.within import keep_within
from leanrnn.running.copies import copy_model
from leanrnn.running.user_line import user_line
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.proof import Differs, cut_copy

__all__ = ["shrink"]

Indices = NDArray[np.int64]


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
        budget: what the smaller model may cost. What is worth least for what it costs goes.
        scores: what every component is worth to a budget, arrays by layer name, comparable between layers. Without
            them: the part of its layer's squared norm that a component's group has, so that all layers together are
            worth the same, however large their weights are.
        round_to: round the kept number up to a multiple, by adding the largest of the others back.
        verify: compare with the zeroed model, in evaluation mode, in training mode too if the model is in it, and on
            longer and larger inputs where the model takes them; :class:`ShrinkError` if they differ.
        example: the inputs to compare on; those of ``discover`` if left out.
    """
    bound = Groups(groups.layers).bind(model)
    bound.remembered = groups.remembered
    if budget is None and scores is not None:
        raise GroupsError("scores say what goes to hold a budget. Give budget= as well.")
    masks = choose(bound, keep, ratio, keep_widths, round_to)
    if budget is not None:
        if round_to != 1 or any(wish is not None for wish in (keep, ratio, keep_widths)):
            raise GroupsError(
                "a budget chooses the widths. Leave keep, ratio and keep_widths out, and give round_to in it."
            )
        masks = keep_within(budget.limits(groups), norm_shares(bound) if scores is None else scores)
        if all(mask.all() for mask in masks.values()):
            warnings.warn("the model is within the budget as it is: nothing was cut.", stacklevel=2)
    example = groups.example if example is None else example
    if not verify:
        small = copy_model(model)
        cut_(small, bound, masks)
        return small
    if example is None:
        raise ShrinkError("there is no example to compare the models on. Pass example=, or verify=False.")
    try:
        return cut_copy(model, bound, masks, example)[0]
    except LeanRNNError:
        raise
    except Exception as error:
        raise _explained(error) from error


def _explained(error: Exception) -> ShrinkError:
    if isinstance(error, Differs):
        return ShrinkError(f"{error}. Discover again with prove=True, which pins what cannot be cut exactly.")
    return ShrinkError(
        f"the smaller model raised {type(error).__name__} at {user_line(error)}: {error}. "
        "Take the width there from a tensor's shape rather than from a number."
    )
