"""Which way a sparsifier takes, from what it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leanrnn.errors import BudgetError, GroupsError
from leanrnn.groups.budget import Budget
from leanrnn.groups.groups import Groups
from leanrnn.penalties import Penalty
from leanrnn.sparsify.course import Course
from leanrnn.sparsify.gradual import Gradual
from leanrnn.sparsify.penalised import Mode, Penalised
from leanrnn.sparsify.steered import Steered
from leanrnn.sparsify.strength import Strength
from leanrnn.sparsify.thresholds import Threshold
from leanrnn.sparsify.way import Way

__all__ = ["way_for"]


def way_for(
    groups: Groups,
    strength: float | Callable[[int], float] | Strength | None,
    budget: Budget | None,
    steps: int | None,
    course: Course | None,
    threshold: float | Threshold | Sequence[Threshold] | None,
    penalty: str | Penalty | None,
    mode: Mode,
) -> Way:
    """The way to a budget, with a penalty or without, or that of a penalty with a given strength."""
    if budget is None:
        if strength is None:
            raise GroupsError(
                'nothing says how small the model is to become. Give budget=leanrnn.Budget(mult_adds="25%") and '
                "steps=, or the strength of a penalty."
            )
        if steps is not None or course is not None:
            raise GroupsError("steps and course lead to a budget. Give budget= as well, or leave them out.")
        return Penalised(groups, strength, threshold, "group_lasso" if penalty is None else penalty, mode)
    if strength is not None:
        raise GroupsError(
            "a budget and a strength are two ways to make a model smaller. Give one of them. A penalty may help on the "
            'way to a budget; its strength is found by itself: Sparsifier(..., budget=..., penalty="group_lasso").'
        )
    if steps is None:
        raise BudgetError(
            "a budget needs to know how long the training is. Give steps=, the number of optimizer steps in all: "
            "batches in an epoch times epochs."
        )
    if penalty is None:
        return Gradual(groups, budget, steps, course)
    return Steered(groups, budget, steps, course, threshold, penalty, mode)
