"""Strength over time: a number, a function of the step, or a controller that looks at what compaction has left."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, overload

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.sparsify.state import restore_, saved

__all__ = ["Schedule", "Strength", "as_strength", "constant", "linear_ramp", "off_from"]


class Strength(ABC):
    """How strong the penalty is in every step; derive your own from it. ::

        class Half(leanrnn.Strength):
            def at(self, step, groups):
                return 1e-3 if sum(groups.widths.values()) > 100 else 0.0

    One that reacts to what the penalty does changes itself in :meth:`compacted` and keeps what it knows in
    :meth:`state_dict`. Widths are plain numbers; norms and anything else that is read from tensors would let every step
    wait for the device, so read them in :meth:`compacted` if at all.
    """

    @abstractmethod
    def at(self, step: int, groups: Groups) -> float:
        """The strength after ``step`` steps. It is asked several times in one step, and has to answer the same."""

    def compacted(self, step: int, groups: Groups) -> None:  # noqa: B027 - not abstract: few look at the widths
        """Called after every compaction, also where nothing was removed: ``groups.widths`` is what is left alive."""

    def state_dict(self) -> dict[str, Any]:
        """What changed since construction, as plain data that fits into JSON."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - not abstract: few have a state
        """Go on from what :meth:`state_dict` returned."""


class Schedule(Strength):
    """A strength that depends on the step alone: ``Schedule(lambda step: 1e-3 / (1 + step))``."""

    def __init__(self, schedule: Callable[[int], float]) -> None:
        self._schedule = schedule

    def __call__(self, step: int) -> float:
        """The strength after ``step`` steps."""
        return self._schedule(step)

    def at(self, step: int, groups: Groups) -> float:
        """The strength after ``step`` steps, whatever the groups."""
        return self._schedule(step)


class _OffFrom(Strength):
    """Another strength, all of it before a step and a part of it from there on."""

    def __init__(self, before: Strength, step: int, left: float) -> None:
        self.before, self.step, self.left = before, step, left

    def at(self, step: int, groups: Groups) -> float:
        return self.before.at(step, groups) * (1.0 if step < self.step else self.left)

    def compacted(self, step: int, groups: Groups) -> None:
        self.before.compacted(step, groups)

    def state_dict(self) -> dict[str, Any]:
        return saved(self.before)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        restore_(self.before, state)


def constant(strength: float) -> Schedule:
    """Always the same strength: ``constant(2e-3)(step) == 2e-3``."""
    strength = _checked(strength)
    return Schedule(lambda step: strength)


def linear_ramp(strength: float, steps: int) -> Schedule:
    """From zero to ``strength`` in ``steps`` steps, then constant: ``linear_ramp(2e-3, 1000)(500) == 1e-3``.

    The full strength from the first step on slows learning down while the weights are still random.
    """
    strength = _checked(strength)
    if steps < 1:
        raise GroupsError(f"a ramp over {steps} steps is none. Give at least one step, or constant(strength).")
    return Schedule(lambda step: strength * min(1.0, step / steps))


@overload
def off_from(strength: float | Callable[[int], float], step: int, left: float = 0.0) -> Schedule: ...
@overload
def off_from(strength: Strength, step: int, left: float = 0.0) -> Strength: ...
def off_from(strength: float | Callable[[int], float] | Strength, step: int, left: float = 0.0) -> Strength:
    """``strength`` until ``step``, and from there on nothing, or the part ``left`` of it. ::

    off_from(2e-3, 9)(9)             # 0.0
    off_from(2e-3, 9, left=0.25)(9)  # 5e-4: the structure is found, and what stays is a mild regulariser
    """
    before, left = as_strength(strength), _checked(left)
    if isinstance(before, Schedule):
        return Schedule(lambda now: before(now) * (1.0 if now < step else left))
    return _OffFrom(before, step, left)


def as_strength(strength: float | Callable[[int], float] | Strength) -> Strength:
    """A number is a constant strength, a function of the step a :class:`Schedule`."""
    if isinstance(strength, Strength):
        return strength
    return Schedule(strength) if callable(strength) else constant(strength)


def _checked(strength: float) -> float:
    if not 0 <= strength < math.inf:
        raise GroupsError(f"strength is {strength}. Give a finite number of at least 0.")
    return float(strength)
