"""A small language model and its groups, written down by hand: what discovery would find."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from leanrnn.groups.groups import Groups, Layer, Strip

GATES = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


class LanguageModel(nn.Module):
    """Embedding, a recurrent stack, a linear head; returns logits and state."""

    def __init__(self, vocabulary: int = 7, width: int = 6, layers: int = 2, kind: type[nn.RNNBase] = nn.LSTM) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rnn = kind(width, width, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, state: object = None) -> tuple[Tensor, object]:
        hidden, state = self.rnn(self.embedding(tokens), state)
        return self.head(hidden), state


def strip(model: nn.Module, tensor: str, axis: int, width: int, role: str, reader: bool = False) -> Strip:
    """A strip in which component k sits at k, width + k, 2 * width + k, ... along the axis."""
    shape = tuple(model.get_parameter(tensor).shape)
    positions = np.arange(shape[axis])
    return Strip(tensor, axis, shape, positions, positions % width, role, reader)


def language_groups(model: LanguageModel) -> Groups:
    """One layer per layer of ``model.rnn``."""
    width, depth = model.rnn.hidden_size, model.rnn.num_layers
    layers = []
    for i in range(depth):
        reader = "head.weight" if i + 1 == depth else f"rnn.weight_ih_l{i + 1}"
        strips = [strip(model, f"rnn.weight_{part}_l{i}", 0, width, "weight") for part in ("ih", "hh")]
        strips += [strip(model, name, 1, width, "weight", True) for name in (f"rnn.weight_hh_l{i}", reader)]
        strips += [strip(model, f"rnn.bias_{part}_l{i}", 0, width, "bias") for part in ("ih", "hh")]
        layers.append(Layer(f"rnn.l{i}", width, tuple(strips)))
    return Groups(layers, model=model)


def language(seed: int = 0, dtype: torch.dtype = torch.float64, **sizes: object) -> tuple[LanguageModel, Groups]:
    """A model with its groups, always the same for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LanguageModel(**sizes).to(dtype)
    return model, language_groups(model)


def kill_(groups: Groups, dead: dict[str, list[int]], biases: bool = False) -> None:
    """Set whole groups to exactly zero."""
    tensors = groups.tensors()
    for name, components in dead.items():
        roles = {s.tensor: s.role for s in groups[name].strips}
        for tensor, axis, index in (place for k in components for place in groups[name].slices(k)):
            if biases or roles[tensor] == "weight":
                tensors[tensor].data.select(axis, index).zero_()
