"""What the sparsifier does in every step, and which components it cuts out when: one interface, two ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.penalties import Penalty
from leanrnn.sparsify.status import Progress

__all__ = ["Way"]


class Way(ABC):
    """How components come to go: by a penalty (``penalised.py``), or chosen for a budget (``gradual.py``).

    Steps are counted by the sparsifier: ``step`` is how many were done before this one.
    """

    groups: Groups
    penalty: Penalty | None = None
    kind: str
    """Its name in a state."""
    cuts_by_itself: bool = False
    """Whether :meth:`due` ever asks for a cut."""

    @abstractmethod
    def before(self, step: int, optimizer: Optimizer) -> None:
        """The gradients of ``optimizer`` are there, it has not stepped yet; after a closure again each time."""

    @abstractmethod
    def after(self, step: int, optimizer: Optimizer) -> None:
        """``optimizer`` has stepped."""

    def strength(self, step: int) -> float:
        """Of the penalty, in this step."""
        return 0.0

    def loss(self, step: int) -> torch.Tensor | None:
        """What the loop is to add to its loss; None if it has nothing to do with it."""
        return None

    def touches(self) -> list[str]:
        """Names of the parameters it may set to zero."""
        return []

    def due(self, step: int) -> Masks | None:
        """The components that stay, if some are to be cut out now, with ``step`` steps done."""
        return None

    def cut_(self, masks: Masks) -> None:  # noqa: B027 - not abstract: few keep a number per component
        """Called with the components that stay, before the others are cut out of the groups."""

    def compacted(self, step: int) -> None:  # noqa: B027 - not abstract: few look at the widths
        """Called after every compaction, also where nothing was removed."""

    def progress(self, step: int) -> Progress | None:
        """How far it has come, if it has an aim."""
        return None

    def unmet(self, step: int) -> str:
        """What of its aim is missing if training ends here, in a sentence; nothing if nothing is."""
        return ""

    def left_over(self) -> str:
        """What is dead and still in the model, in a sentence; nothing if nothing is. Reads numbers back."""
        return ""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Settings, and what changed since construction, as plain data."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there, or refuse it."""
