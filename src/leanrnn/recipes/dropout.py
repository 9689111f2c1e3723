"""Dropout that stays the same over a window, which recurrent networks take better (Gal and Ghahramani, 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

__all__ = ["LockedDropout", "WordDropout"]


class LockedDropout(nn.Module):
    """One mask for all steps, time first; another one for every sequence. ::

    LockedDropout(0.5)(torch.ones(35, 20, 200))
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Without training, ``x`` itself."""
        if not self.training or not self.p:
            return x
        return x * dropout(torch.ones_like(x[:1]), self.p)


class WordDropout(nn.Module):
    """Whole words; one that comes twice in a sequence is dropped twice or not at all. ::

    WordDropout(0.1)(embedding(words), words)
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """``x`` (time, batch, numbers) of ``words`` (time, batch)."""
        if not self.training or not self.p:
            return x
        mask = dropout(torch.ones_like(x[..., :1]), self.p)
        steps = torch.arange(len(words), device=words.device)[:, None, None]
        same = words[:, None] == words  # (step, other step, batch)
        first = torch.where(same, steps, len(words)).amin(0)
        return x * mask.gather(0, first[..., None])
