"""Recurrent stacks with a head, and their groups written down by hand for every direction."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from leanrnn.groups.groups import Groups, Layer, Strip, named_tensors

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
BATCH, STEPS, INPUTS = 4, 5, 3


class Tagger(nn.Module):
    """A recurrent stack and a linear head; returns the tags and the last state."""

    def __init__(self, kind: str = "LSTM", width: int = 6, layers: int = 2, **options: object) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(INPUTS, width, layers, **options)
        self.head = nn.Linear(width * (2 if self.rnn.bidirectional else 1), 4)

    def forward(self, x: Tensor, state: object = None) -> tuple[Tensor, object]:
        hidden, state = self.rnn(x, state)
        return self.head(hidden), state


def strip(
    model: nn.Module, tensor: str, axis: int, width: int, role: str, *, reader: bool = False, at: int = -1
) -> Strip:
    """Component k at every position p with p % width == k, or only in the run of ``width`` that starts at ``at``."""
    shape = tuple(named_tensors(model)[tensor].shape)
    positions = np.arange(shape[axis]) if at < 0 else np.arange(at, at + width)
    return Strip(tensor, axis, shape, positions, (positions - max(at, 0)) % width, role, reader)


def stack_strips(model: nn.Module, name: str, suffix: str, width: int) -> list[Strip]:
    """What one layer and direction of ``model.<name>`` owns by itself."""
    strips = [strip(model, f"{name}.weight_{part}{suffix}", 0, width, "weight") for part in ("ih", "hh")]
    strips.append(strip(model, f"{name}.weight_hh{suffix}", 1, width, "weight", reader=True))
    biases = [f"{name}.bias_{part}{suffix}" for part in ("ih", "hh")]
    return strips + [strip(model, bias, 0, width, "bias") for bias in biases if bias in named_tensors(model)]


def tagger_groups(model: Tagger) -> Groups:
    """One layer per layer and direction, named rnn._l0, rnn._l0_reverse, ..."""
    rnn, layers = model.rnn, []
    directions = ("", "_reverse") if rnn.bidirectional else ("",)
    for i in range(rnn.num_layers):
        for place, direction in enumerate(directions):
            width = rnn.hidden_size
            strips = stack_strips(model, "rnn", f"_l{i}{direction}", width)
            last = i + 1 == rnn.num_layers
            readers = ["head.weight"] if last else [f"rnn.weight_ih_l{i + 1}{d}" for d in directions]
            strips += [strip(model, r, 1, width, "weight", reader=True, at=place * width) for r in readers]
            layers.append(Layer(f"rnn._l{i}{direction}", width, tuple(strips)))
    return Groups(layers, model=model)


def tagger(kind: str = "LSTM", **options: object) -> tuple[Tagger, Groups, Tensor]:
    """A float64 model, its groups and an example."""
    model = Tagger(kind, **options).double()
    groups = tagger_groups(model)
    groups.example = torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    return model, groups, groups.example


def random_masks(groups: Groups, seed: int = 0) -> dict[str, np.ndarray]:
    """Components to keep, another number in every layer where that is possible."""
    rng = np.random.default_rng(seed)
    kept = {la.name: rng.permutation(la.width)[: 2 + i % max(1, la.width - 2)] for i, la in enumerate(groups)}
    return groups.keep_mask(kept)
