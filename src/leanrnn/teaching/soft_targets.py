"""The most likely classes of every position, and how likely all others are together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from leanrnn.errors import DataError

__all__ = ["SoftTargets"]


@dataclass(frozen=True)
class SoftTargets:
    """What a teacher said, cut down to the ``k`` most likely classes of every position. ::

        soft = leanrnn.SoftTargets.of(teacher_scores, top=20)
        loss = leanrnn.distil(scores, soft, loss)

    All other classes count as one, with the probability that is left: the student is told how much of its own
    probability belongs outside the ``k``, but not where. With ``k`` the number of classes nothing is lost.
    """

    classes: Tensor
    """Integers of shape ``(..., k)``, the most likely class first."""
    logs: Tensor
    """Logarithms of their probabilities, of the same shape."""
    temperature: float = 1.0
    """That the scores were divided by."""

    @classmethod
    def of(cls, scores: Tensor, top: int, temperature: float = 1.0) -> SoftTargets:
        """Of scores before the softmax, with the classes along the last axis."""
        if not 1 <= top <= scores.size(-1):
            raise DataError(
                f"top is {top}, and the scores have {scores.size(-1)} classes. Give a number from 1 to that."
            )
        logs, classes = log_softmax(scores.detach() / temperature, -1).topk(top, -1)
        return cls(classes, logs, temperature)

    def to(self, device: torch.device | str) -> SoftTargets:
        """The same on another device."""
        return SoftTargets(self.classes.to(device), self.logs.to(device), self.temperature)
