"""When components go on the way to a budget: a warm-up at full size, a cubic fall, and time to recover."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from leanrnn.errors import BudgetError

__all__ = ["Course", "Timetable"]


@dataclass(frozen=True)
class Course:
    """How a budget is reached, as parts of all steps. ::

        course = leanrnn.Course(warm_up=0.1, shrink=0.4)
        leanrnn.Sparsifier(groups, budget=budget, steps=20_000, course=course)

    First the model trains at full size. Then it shrinks in ``rounds``: in each, the components that are worth least for
    what they cost are faded to zero and cut out. What is left of the steps is training as usual, at the final widths.
    """

    warm_up: float = 0.2
    """Part of the steps before the first component fades."""
    shrink: float = 0.3
    """Part of the steps in which components go."""
    rounds: int = 20
    """How often some go; at most once a step."""
    by: Literal["saliency", "norm"] = "saliency"
    """What goes: what the loss would feel least for what it costs (:class:`~leanrnn.Saliency`), or the smallest norms,
    of all layers the same part."""
    power: float = 3.0
    """Of the fall: 1 is a line; the larger, the more goes at the beginning."""

    def __post_init__(self) -> None:
        if not (0 <= self.warm_up < 1 and 0 < self.shrink <= 1 and self.warm_up + self.shrink <= 1):
            raise BudgetError(
                f"a course with warm_up {self.warm_up} and shrink {self.shrink} is not possible. Both are parts of all "
                "steps: shrink is above 0, and together they are at most 1."
            )
        if self.rounds < 1 or not 0 < self.power < math.inf:
            raise BudgetError(f"rounds {self.rounds} and power {self.power} have to be at least 1 and above 0.")
        if self.by not in ("saliency", "norm"):
            raise BudgetError(f"there is no way to choose by {self.by!r}. Choose saliency or norm.")


@dataclass(frozen=True)
class Timetable:
    """A course in steps: ``Timetable.of(Course(), 1000).round_at(200) == 0``."""

    starts: tuple[int, ...]
    """How many steps are done when each round begins; the last number is the end of the last round."""
    power: float
    rounds: int
    """How many were planned."""

    @classmethod
    def of(cls, course: Course, steps: int) -> Timetable:
        """That of a training of so many steps."""
        if steps < 2:
            raise BudgetError(f"steps is {steps}. Give the number of optimizer steps of the whole training.")
        first = min(max(1, round(course.warm_up * steps)), steps - 1)  # a step gives the first saliency
        last = min(max(first + 1, round((course.warm_up + course.shrink) * steps)), steps)
        rounds = min(course.rounds, last - first)
        return cls(tuple(first + (last - first) * i // rounds for i in range(rounds + 1)), course.power, rounds)

    @property
    def first(self) -> int:
        """How many steps are done when the first components are chosen."""
        return self.starts[0]

    @property
    def last(self) -> int:
        """How many steps are done when the last components are cut out."""
        return self.starts[-1]

    def round_at(self, done: int) -> int | None:
        """Which round begins with so many steps done, if one does; the end of the last one counts as one more."""
        return self.starts.index(done) if done in self.starts else None

    def left_after(self, number: int) -> float:
        """The part of what is to go that is still there after a round."""
        return float(max(0.0, 1 - (number + 1) / self.rounds) ** self.power)

    def longer(self, steps: int) -> Timetable:
        """With one round more, for what was measured and is not good enough yet, if there are steps left for it."""
        *_, before, last = self.starts
        return replace(self, starts=(*self.starts, 2 * last - before)) if 2 * last - before <= steps else self

    def reads(self, step: int) -> bool:
        """Whether saliency is read with so many steps done: some forty times a round, and just before one."""
        every = max(1, (self.last - self.first) // (len(self.starts) - 1) // WINDOW)
        until = next((start for start in self.starts[:-1] if start > step), None)
        return until is not None and (until - 1 - step) % every == 0 and until - 1 - step < WINDOW * every


WINDOW = 40
"""Readings that the average of the saliency runs over."""
