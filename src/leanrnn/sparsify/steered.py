"""A penalty on the way to a budget: it makes small what is to go, and a controller sets its strength."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from leanrnn.groups.budget import Budget
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import group_norms
from leanrnn.penalties import Penalty
from leanrnn.sparsify.course import Course
from leanrnn.sparsify.gradual import Gradual
from leanrnn.sparsify.penalised import Mode, Penalised
from leanrnn.sparsify.strength import Strength
from leanrnn.sparsify.thresholds import Threshold

__all__ = ["Steered"]

FACTOR, SMALL = 1.5, 0.1
"""By how much the strength changes from round to round; what part of the survivors' mean norm counts as small."""


class Steered(Gradual):
    """A budget reached by a penalty, as :class:`~leanrnn.Sparsifier` explains it: ``Steered(groups, budget, 20_000)``.

    While the model shrinks the penalty pulls on all groups, and each round takes those of smallest norm. If they were
    not small yet, the penalty was too weak and becomes stronger; if they were, it becomes weaker. Whatever is left to
    do at the end goes by rank alone, so that the budget is met with any penalty.
    """

    kind = "budget with a penalty"
    penalty: Penalty

    def __init__(
        self,
        groups: Groups,
        budget: Budget,
        steps: int,
        course: Course | None = None,
        threshold: float | Threshold | Sequence[Threshold] | None = 1e-4,
        penalty: str | Penalty = "group_lasso",
        mode: Mode = "gradient",
    ) -> None:
        super().__init__(groups, budget, steps, replace(course or Course(), by="norm"))
        self._steering = _Steering()
        self._pull = Penalised(groups, self._steering, threshold, penalty, mode)
        self.penalty = self._pull.penalty
        self._optimizers: list[Optimizer] = []

    def strength(self, step: int) -> float:
        return self._steering.now if self.table.first <= step < self.table.last else 0.0

    def touches(self) -> list[str]:
        return list(dict.fromkeys([*super().touches(), *self._pull.touches()]))

    def loss(self, step: int) -> Tensor | None:
        found = self._pull.loss(step)
        return found if found is None or self.strength(step) else found * 0.0

    def before(self, step: int, optimizer: Optimizer) -> None:
        super().before(step, optimizer)
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
        if self.strength(step):
            self._pull.before(step, optimizer)

    def after(self, step: int, optimizer: Optimizer) -> None:
        if self.strength(step):
            self._pull.after(step, optimizer)
        super().after(step, optimizer)

    def cut_(self, masks: Masks) -> None:
        super().cut_(masks)
        self._pull.cut_(masks)

    def _choose(self, step: int) -> None:
        super()._choose(step)
        norms = torch.cat(list(group_norms(self.groups).values())).double().cpu()
        if not self._steering.now:
            # So strong that a group of usual size comes to zero in the time there is, by steps of rate times strength.
            rate = max((float(group["lr"]) for item in self._optimizers for group in item.param_groups), default=1.0)
            steps = self.table.last - self.table.first
            self._steering.now = float(norms.median()) / max(rate, torch.finfo(torch.float64).tiny) / steps
        elif self._fade:
            stays = torch.cat([torch.from_numpy(self._fade.staying[name]) for name in self.groups.names])
            small = float(norms[~stays].mean()) <= SMALL * float(norms[stays].mean())
            self._steering.now *= 1 / FACTOR if small else FACTOR

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"pull": self._pull.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._pull.load_state_dict(state["pull"])


class _Steering(Strength):
    """A strength that is set from round to round; 0 before the first."""

    now: float = 0.0

    def at(self, step: int, groups: Groups) -> float:
        return self.now

    def state_dict(self) -> dict[str, Any]:
        return {"now": self.now}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.now = float(state["now"])
