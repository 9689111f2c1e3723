"""Which components stay within a budget: those worth most for what they cost, or as large a part of every layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from leanrnn.errors import BudgetError, GroupsError
from leanrnn.groups.data import Masks
from leanrnn.groups.limits import Limits

__all__ = ["Scores", "keep_evenly", "keep_within"]

Scores = Mapping[str, Any]
"""Arrays or tensors by layer, what every component is worth: 0 and more, comparable between layers."""
_IMPOSSIBLE = "the budget is not possible with these floors. Lower them, or raise the budget."
_PAIRED = 6  # layers up to which widths are also traded between every two of them


def keep_within(limits: Limits, scores: Scores) -> Masks:
    """Per layer which components stay, so that the model is within the limits and their scores add up to most.

    For any widths the best choice is plain: those of the highest scores. So only widths are looked for. From those of
    ``scores`` on, what is worth least for what it saves goes until the tightest limit holds; what still fits comes
    back; and then components of two layers are traded as long as that gains, which makes the choice for two layers the
    best there is. ::

        limits = Budget(mult_adds="25%").limits(groups)
        masks = keep_within(limits, {"rnn.l0": saliency_0, "rnn.l1": saliency_1})
    """
    search = _Search(limits, scores)
    search.remove()
    search.give_back()
    search.trade()
    search.give_back()
    return search.masks()


def keep_evenly(limits: Limits, scores: Scores) -> Masks:
    """Per layer which components stay, so that the model is within the limits and all layers keep the same part of what
    they had at the beginning; in each layer those of the highest scores.

    This is for scores that say nothing of one layer beside another, as norms do: chosen by them for what they save, the
    layer below a large one would lose nearly all. ::

        masks = keep_evenly(limits, group_norms(groups))
    """
    search = _Search(limits, scores)
    search.even()
    search.fill()
    return search.masks()


class _Search:
    def __init__(self, limits: Limits, scores: Scores) -> None:
        self.limits = limits
        # Scores may come as tensors, wherever they are.
        self.scores = {name: torch.as_tensor(s).double().cpu().numpy() for name, s in scores.items()}
        if limits.widths.keys() != scores.keys():
            raise GroupsError(f"there are scores for {', '.join(scores)}. Give them for {', '.join(limits.widths)}.")
        for name, given in self.scores.items():
            if not (np.isfinite(given).all() and (given >= 0).all()):
                raise GroupsError(f"the scores of {name!r} are not all finite and 0 or more.")
        self.order = {name: np.argsort(-given, kind="stable") for name, given in self.scores.items()}
        # worth[name][n] is that of the best n components.
        self.worth = {n: np.concatenate([[0.0], np.cumsum(s[self.order[n]])]) for n, s in self.scores.items()}
        self.steps = {name: np.array(limits.allowed(name, len(given))) for name, given in self.scores.items()}
        self.widths = {name: int(steps[-1]) for name, steps in self.steps.items()}

    def masks(self) -> Masks:
        """Those that stay at these widths."""
        return {
            name: np.isin(np.arange(len(given)), self.order[name][: self.widths[name]])
            for name, given in self.scores.items()
        }

    def even(self) -> None:
        """Narrow all layers to the largest part that holds all limits."""
        first = self.limits.widths
        parts = sorted({int(n) / first[name] for name, steps in self.steps.items() for n in steps})
        low, high = 0, len(parts) - 1  # widths only fall with the part, so costs do, too
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.limits.hold(self._at(parts[middle])) else (low, middle - 1)
        self.widths = self._at(parts[low])
        if not self.limits.hold(self.widths):
            raise BudgetError(_IMPOSSIBLE)

    def fill(self) -> None:
        """Widen layers by what still fits, that of the smallest part first."""
        while True:
            fitting = []
            for name, width in self.widths.items():
                higher = self._next(name, 1)
                if higher is not None and self.limits.hold(self.widths | {name: higher}):
                    fitting.append((width / self.limits.widths[name], name, higher))
            if not fitting:
                return
            _, name, higher = min(fitting)
            self.widths[name] = higher

    def _at(self, part: float) -> dict[str, int]:
        """The widest that every layer may be at this part, or else its narrowest."""
        wide = {name: part * width * (1 + 1e-12) for name, width in self.limits.widths.items()}
        return {name: int(steps[max(0, (steps <= wide[name]).sum() - 1)]) for name, steps in self.steps.items()}

    def remove(self) -> None:
        """Narrow the layers until all limits hold."""
        while not self.limits.hold(self.widths):
            cost = self.limits.tightest(self.widths)
            now = cost.at(self.widths)
            best, choice = (math.inf, 0.0), None
            for name, width in self.widths.items():
                lower = self._next(name, -1)
                saved = 0 if lower is None else now - cost.at(self.widths | {name: lower})
                if lower is not None and saved > 0:
                    # Of layers that lose as little for what they save, the one that saves most.
                    rank = ((self.worth[name][width] - self.worth[name][lower]) / saved, -float(saved))
                    if rank < best:
                        best, choice = rank, (name, lower)
            if choice is None:
                raise BudgetError(_IMPOSSIBLE)
            self.widths[choice[0]] = choice[1]

    def give_back(self) -> None:
        """Widen layers again by what still fits, the best first."""
        while True:
            fitting = []
            for name, width in self.widths.items():
                higher = self._next(name, 1)
                if higher is not None and self.limits.hold(wider := self.widths | {name: higher}):
                    gained = float(self.worth[name][higher] - self.worth[name][width])
                    spent = sum(c.at(wider) - c.at(self.widths) for c in self.limits.costs.values())
                    fitting.append((gained / max(float(spent), 1e-12), name, higher))
            if not fitting:
                return
            _, name, higher = max(fitting)
            self.widths[name] = higher

    def trade(self) -> None:
        """Give one layer what another one loses, as long as that gains."""
        if len(self.widths) > _PAIRED:
            return
        pairs = list(itertools.combinations(self.widths, 2))
        while any([self._traded(a, b) for a, b in pairs]):
            pass

    def _traded(self, a: str, b: str) -> bool:
        """Set two layers to their best widths, the others as they are; whether that gained anything."""
        wide = self.steps[a]
        # For every width of a, the widest b that fits, all by bisection at once.
        low, high = np.full(len(wide), -1), np.full(len(wide), len(self.steps[b]) - 1)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self.limits.hold(self.widths | {a: wide, b: self.steps[b][np.maximum(middle, 0)]})
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        worth = np.where(low >= 0, self.worth[a][wide] + self.worth[b][self.steps[b][np.maximum(low, 0)]], -np.inf)
        best = int(worth.argmax())
        before = self.worth[a][self.widths[a]] + self.worth[b][self.widths[b]]
        if worth[best] <= before * (1 + 1e-9):
            return False
        self.widths |= {a: int(wide[best]), b: int(self.steps[b][low[best]])}
        return True

    def _next(self, name: str, by: int) -> int | None:
        """The next width of a layer that is allowed, narrower or wider."""
        at = int(np.searchsorted(self.steps[name], self.widths[name])) + by
        return int(self.steps[name][at]) if 0 <= at < len(self.steps[name]) else None
