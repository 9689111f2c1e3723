"""Modules that take the place of torch's own where a cut leaves them without: unequal widths, former widths, norms."""

from leanrnn.layers.cells import Cell, GRUCell, LSTMCell, RNNCell
from leanrnn.layers.norms import GroupNorm, LayerNorm, RMSNorm
from leanrnn.layers.recurrent import GRU, LSTM, PLAIN, RNN, Recurrent
from leanrnn.layers.states import Former, States, compose, narrow

__all__ = [
    "GRU",
    "LSTM",
    "PLAIN",
    "RNN",
    "Cell",
    "Former",
    "GRUCell",
    "GroupNorm",
    "LSTMCell",
    "LayerNorm",
    "RMSNorm",
    "RNNCell",
    "Recurrent",
    "States",
    "compose",
    "narrow",
]
