"""Strength over time. A schedule is any callable from the number of steps done to a strength; a number is one too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from leanrnn.errors import GroupsError

__all__ = ["Schedule", "as_schedule", "constant", "linear_ramp", "off_from"]

Schedule: TypeAlias = Callable[[int], float]


def constant(strength: float) -> Schedule:
    """Always the same strength: ``constant(2e-3)(step) == 2e-3``."""
    strength = _checked(strength)
    return lambda step: strength


def linear_ramp(strength: float, steps: int) -> Schedule:
    """From zero to ``strength`` in ``steps`` steps, then constant: ``linear_ramp(2e-3, 1000)(500) == 1e-3``.

    The full strength from the first step on slows learning down while the weights are still random.
    """
    strength = _checked(strength)
    if steps < 1:
        raise GroupsError(f"a ramp over {steps} steps is none. Give at least one step, or constant(strength).")
    return lambda step: strength * min(1.0, step / steps)


def off_from(strength: float | Schedule, step: int, left: float = 0.0) -> Schedule:
    """``strength``, a number or a schedule, until ``step``, and from there on nothing, or the part ``left`` of it. ::

    off_from(2e-3, 9)(9)             # 0.0
    off_from(2e-3, 9, left=0.25)(9)  # 5e-4: the structure is found, and what stays is a mild regulariser
    """
    before = as_schedule(strength)
    left = _checked(left)
    return lambda now: before(now) * (1.0 if now < step else left)


def as_schedule(strength: float | Schedule) -> Schedule:
    """A number becomes a constant schedule; a callable is one already."""
    return strength if callable(strength) else constant(strength)


def _checked(strength: float) -> float:
    if not 0 <= strength < math.inf:
        raise GroupsError(f"strength is {strength}. Give a finite number of at least 0.")
    return float(strength)
