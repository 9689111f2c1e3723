"""Dropout that stays the same over a window, which recurrent networks take better (Gal and Ghahramani, 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from leanrnn.layers import one_layer

__all__ = ["LockedDropout", "RecurrentDropout", "WordDropout"]


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


class RecurrentDropout(nn.Module):
    """Single weights from state to state, the same for all steps and sequences (Merity et al., 2018): unlike masks of
    the state itself it leaves the layer one call. ::

        RecurrentDropout(0.3)(nn.LSTM(200, 200), torch.zeros(35, 20, 200))
    """

    def __init__(self, p: float = 0.3) -> None:
        super().__init__()
        self.p = p

    def forward(self, layer: nn.Module, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """What the layer (LSTM, GRU or RNN, one layer, one direction) gives; without training, with all its weights."""
        if not self.training or not self.p or not isinstance(layer, nn.RNNBase):
            found: tuple[Tensor, Any] = layer(x, state)
            return found
        weights = [dropout(w, self.p) if name == "weight_hh_l0" else w for name, w in layer.named_parameters()]
        first = x.new_zeros(1, x.size(1), layer.hidden_size)
        if isinstance(layer, nn.LSTM):
            return one_layer("LSTM", x, None, (first, first) if state is None else state, weights, True, True)
        y, (h,) = one_layer(layer.mode, x, None, (first if state is None else state,), weights, True, True)
        return y, h
