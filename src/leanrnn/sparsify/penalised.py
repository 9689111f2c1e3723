"""The paper's way: a penalty pulls on all groups, thresholds make exact zeros, and what died is cut out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from torch import Tensor
from torch.optim import Optimizer

from leanrnn.errors import GroupsError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.keep import choose
from leanrnn.penalties import PENALTIES, Penalty
from leanrnn.sparsify.directions import Directions
from leanrnn.sparsify.optimizers import gradient_amounts, parameters_of, proximal_amounts
from leanrnn.sparsify.state import restore_, saved
from leanrnn.sparsify.strength import Strength, as_strength
from leanrnn.sparsify.thresholds import Threshold, as_thresholds
from leanrnn.sparsify.told import warn
from leanrnn.sparsify.way import Way

__all__ = ["Mode", "Penalised", "as_penalty"]

Mode = Literal["gradient", "proximal", "loss"]


class Penalised(Way):
    """Penalty, strength and thresholds, as :class:`~leanrnn.Sparsifier` explains them: ``Penalised(groups, 2e-3)``."""

    kind = "penalty"
    penalty: Penalty

    def __init__(
        self,
        groups: Groups,
        strength: float | Callable[[int], float] | Strength,
        threshold: float | Threshold | Sequence[Threshold] | None = 1e-4,
        penalty: str | Penalty = "group_lasso",
        mode: Mode = "gradient",
    ) -> None:
        if mode not in ("gradient", "proximal", "loss"):
            raise GroupsError(f"there is no mode {mode!r}. Choose gradient, proximal or loss.")
        self.groups, self.mode = groups, mode
        self.penalty, self.thresholds = as_penalty(penalty, groups), as_thresholds(threshold)
        self._strength, self._directions = as_strength(strength), Directions(groups)
        self._asked = mode != "loss"

    def strength(self, step: int) -> float:
        return self._strength.at(step, self.groups)

    def touches(self) -> list[str]:
        return list(dict.fromkeys(name for threshold in self.thresholds for name in threshold.touches(self.groups)))

    def loss(self, step: int) -> Tensor | None:
        if self.mode != "loss":
            return None
        self._asked = True
        return self.penalty.value() * self.strength(step)

    def before(self, step: int, optimizer: Optimizer) -> None:
        """The gradient of the penalty."""
        if not self._asked:
            self._asked = True  # once is enough
            warn(
                'the penalty has no effect: mode="loss" leaves it to your loop, and it was not asked for before this '
                "step. Add it to the loss, loss = loss + sparsifier.loss(), or use another mode."
            )
        strength = self.strength(step) if self.mode == "gradient" else 0.0
        if strength:
            self.penalty.add_gradient_(gradient_amounts(optimizer, strength))

    def after(self, step: int, optimizer: Optimizer) -> None:
        """The proximal step and the thresholds."""
        strength = self.strength(step) if self.mode == "proximal" else 0.0
        if strength:
            self.penalty.proximal_(proximal_amounts(optimizer, strength))
        mine = parameters_of(optimizer)
        self._directions.unit_(mine)
        for threshold in self.thresholds:
            threshold.apply_(self.groups, mine)

    def cut_(self, masks: Masks) -> None:
        self.penalty.cut_(masks)

    def left_over(self) -> str:
        dead = {name: int((~mask).sum()) for name, mask in choose(self.groups).items()}
        told = ", ".join(f"{count} in {name}" for name, count in dead.items() if count)
        return told and (
            f"dead components are still in the model: {told}. From now on nothing keeps them at zero. Call compact() "
            "before detach(), or shrink the model before it trains on."
        )

    def compacted(self, step: int) -> None:
        self._strength.compacted(step, self.groups)

    def state_dict(self) -> dict[str, Any]:
        return {
            "strength": saved(self._strength),
            "mode": self.mode,
            "penalty": saved(self.penalty),
            "threshold": [threshold.settings() for threshold in self.thresholds],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Strength and thresholds are those given at construction; penalty and mode have to be those of the state."""
        there = {"mode": state["mode"], "penalty": state["penalty"]["kind"]}
        here = {"mode": self.mode, "penalty": type(self.penalty).__name__}
        for key, value in there.items():
            if value != here[key]:
                raise GroupsError(f"the state is of {key} {value!r}, this one has {here[key]!r}. Build it alike.")
        restore_(self.penalty, state["penalty"])
        restore_(self._strength, state["strength"])


def as_penalty(penalty: str | Penalty, groups: Groups) -> Penalty:
    """A name becomes the penalty of that name over the groups."""
    if isinstance(penalty, Penalty):
        return penalty
    if penalty not in PENALTIES:
        names = " or ".join(PENALTIES)
        raise GroupsError(f"there is no penalty {penalty!r}. Choose {names}, or derive one from leanrnn.Penalty.")
    return PENALTIES[penalty](groups)
