"""Modules that take the place of torch's own where a cut leaves them without: unequal widths, former widths, norms."""

from leanrnn.layers.attention import MultiheadAttention
from leanrnn.layers.cells import Cell, GRUCell, LSTMCell, RNNCell
from leanrnn.layers.context import quick
from leanrnn.layers.fused import GATES, one_layer
from leanrnn.layers.highway import RecurrentHighway
from leanrnn.layers.norms import GroupNorm, LayerNorm, RMSNorm
from leanrnn.layers.recurrent import (
    GRU,
    LSTM,
    PLAIN,
    RECURRENT,
    RNN,
    Recurrent,
    equal_widths,
    slots_of,
    widths_of,
)
from leanrnn.layers.states import Former, States, compose, narrow

__all__ = [
    "GATES",
    "GRU",
    "LSTM",
    "PLAIN",
    "RECURRENT",
    "RNN",
    "Cell",
    "Former",
    "GRUCell",
    "GroupNorm",
    "LSTMCell",
    "LayerNorm",
    "MultiheadAttention",
    "RMSNorm",
    "RNNCell",
    "Recurrent",
    "RecurrentHighway",
    "States",
    "compose",
    "equal_widths",
    "narrow",
    "one_layer",
    "quick",
    "slots_of",
    "widths_of",
]
