"""The way to a budget: choose what is worth least for what it costs, fade it, cut it, and leave the rest alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from torch.optim import Optimizer

from leanrnn.errors import BudgetError, GroupsError
from leanrnn.groups.budget import Budget
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.limits import Limits
from leanrnn.groups.norms import group_norms
from leanrnn.groups.within import keep_evenly, keep_within
from leanrnn.sparsify.course import WINDOW, Course, Timetable
from leanrnn.sparsify.fade import Fade
from leanrnn.sparsify.optimizers import parameters_of
from leanrnn.sparsify.saliency import Saliency, handles
from leanrnn.sparsify.status import Progress
from leanrnn.sparsify.way import Way
from leanrnn.surgery.plan import plan_of

__all__ = ["Gradual"]


class Gradual(Way):
    """Budget and course, as :class:`~leanrnn.Sparsifier` explains them: ``Gradual(groups, budget, 20_000)``.

    Every round ends with a cut, and begins with a choice for the limits that hold at its end (:meth:`Limits.eased`), so
    that the last one lands where it should. The choice reads numbers back from the device; no other step does.
    """

    kind = "budget"
    cuts_by_itself = True

    def __init__(self, groups: Groups, budget: Budget, steps: int, course: Course | None = None) -> None:
        self.groups, self.budget, self.steps = groups, budget, steps
        self.course = Course() if course is None else course
        self.table = Timetable.of(self.course, steps)
        self._saliency = Saliency(groups, window=WINDOW) if self.course.by == "saliency" else None
        self._fade = Fade(groups)
        self._parts: dict[Optimizer, int] = {}
        self._limits: Limits | None = None
        handles(groups)  # says now what cannot fade
        try:
            self._limits = budget.limits(groups)
        except BudgetError:
            # A training that is resumed begins with a model that is smaller already; its state has the limits.
            if plan_of(groups.model) is None:
                raise

    @property
    def limits(self) -> Limits:
        """The budget in numbers, for the model as it was at the beginning."""
        if self._limits is None:
            self._limits = self.budget.limits(self.groups)
        return self._limits

    def touches(self) -> list[str]:
        return list(dict.fromkeys(strip.tensor for strips in handles(self.groups).values() for strip in strips))

    def before(self, step: int, optimizer: Optimizer) -> None:
        """Read the saliency off weights and gradients, now and then."""
        if step == 0:
            _ = self.limits  # what is not possible is refused before the first step
        if self._saliency is not None and self.table.reads(step):
            scale = getattr(optimizer, "grad_scale", None)
            part = self._parts.setdefault(optimizer, len(self._parts))
            self._saliency.read(parameters_of(optimizer), 1.0 if scale is None else scale, part)

    def after(self, step: int, optimizer: Optimizer) -> None:
        """What was chosen goes on to zero, which it reaches in the last step of its round."""
        if self._fade:
            left = next(start for start in self.table.starts if start > step) - (step + 1)
            self._fade.multiply_(left / (left + 1), parameters_of(optimizer))

    def due(self, step: int) -> Masks | None:
        if self._saliency is not None:
            self._saliency.close()
        if self.table.round_at(step) is None:
            return None
        if self._fade:
            return self._fade.staying
        self._choose(step)
        return None

    def cut_(self, masks: Masks) -> None:
        self._fade.cut_(masks)
        if self._saliency is not None:
            self._saliency.cut_(masks)

    def compacted(self, step: int) -> None:
        if self.table.round_at(step) is not None and not self._fade:
            over = self.limits.correct(self.groups.model, self.groups.widths) > 1
            if over and step == self.table.last:
                self.table = self.table.longer(self.steps)
            self._choose(step)

    def _choose(self, step: int) -> None:
        number = self.table.round_at(step)
        if number is None or number == len(self.table.starts) - 1:
            return
        limits = self.limits.eased(self.table.left_after(number))
        if self._saliency is None:
            self._fade.mark(keep_evenly(limits, group_norms(self.groups)))
        else:
            self._fade.mark(keep_within(limits, self._saliency.scores()))

    def progress(self, step: int) -> Progress:
        phase = "warm up" if step <= self.table.first else "shrink" if step <= self.table.last else "recover"
        limits = self.limits
        costs = {name: (float(cost.at(self.groups.widths)), limits.most[name]) for name, cost in limits.costs.items()}
        return Progress("over" if step >= self.steps else phase, costs, self._fade.counts)

    def unmet(self, step: int) -> str:
        """What is missing if training ends here."""
        limits, widths = self.limits, self.groups.widths
        if limits.hold(widths) and all(width <= limits.caps[name] for name, width in widths.items()):
            return ""
        return (
            f"the budget is not met: {self.progress(step)}, after {step} of {self.table.last} steps until the last "
            f"cut. Give the number of steps that the training has: steps={self.steps} now."
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "course": asdict(self.course),
            "steps_in_all": self.steps,
            "starts": list(self.table.starts),
            "limits": None if self._limits is None else self._limits.to_data(),
            "fading": self._fade.state_dict(),
            "saliency": None if self._saliency is None else self._saliency.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The limits are those of the state: parts of the model as it was at the beginning."""
        for key, here in (("course", asdict(self.course)), ("steps_in_all", self.steps)):
            if state[key] != here:
                raise GroupsError(f"the state is of {key} {state[key]}, this one has {here}. Build it alike.")
        if state["limits"]["most"].keys() != self.budget.costs(self.groups).keys():
            raise GroupsError("the state is of a budget for other costs. Give the budget that it began with.")
        self._limits = self.budget.limits_of(state["limits"], self.groups)
        self.table = replace(self.table, starts=tuple(state["starts"]))
        self._fade.load_state_dict(state["fading"])
        if self._saliency is not None:
            self._saliency.load_state_dict(state["saliency"])
