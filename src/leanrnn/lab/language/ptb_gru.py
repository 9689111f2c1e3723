"""GRU and RNN (tanh) in the place of the LSTM: the paper says its method is for them too, and has no run of them.

Names are those of ``ptb-lstm``: ``-iss``, ``-lean`` and ``-direct`` behind the size. Settings are the LSTM's of the
same size, but for the learning rate, which these cells bear less of, and fewer epochs, as many for all runs of a size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leanrnn.lab.language.config import Cell
from leanrnn.lab.language.ptb_lstm import DENSE, KEEP, STRENGTH, lean
from leanrnn.lab.recipe import Recipe, with_results

__all__ = ["PTB_GRU"]

RATE: dict[Cell, float] = {"gru": 0.5, "rnn": 0.1}
EPOCHS: dict[str, dict[str, Any]] = {
    "small": {"epochs": 9, "constant": 4, "decay": 0.5},
    "medium": {"epochs": 10, "constant": 4, "decay": 0.6},
}
SPARSE: dict[Cell, dict[str, Any]] = {"gru": {}, "rnn": {"strength": 3 * STRENGTH}}
OURS: dict[tuple[Cell, str], dict[str, Any]] = {
    ("gru", "small"): {"penalised": 4},
    ("gru", "medium"): {"strength": 3e-3, "ramp": 0.2, "penalised": 4, "afterwards": 0.1, "constant": 6, "decay": 0.5},
    ("rnn", "small"): {"strength": 1.4e-2, "penalised": 4, "afterwards": 0.1, "constant": 6, "decay": 0.4},
}
"""Units that the data does not hold shrink by rate times strength a step: the lower the rate, the more strength or
epochs it takes until they are gone."""
CALLED: dict[Cell, str] = {"gru": "a GRU", "rnn": "an RNN with tanh"}

MEASURED = {
    "ptb-gru-small": "126.9 / 121.9",
    "ptb-gru-small-iss": "114.3 / 110.1, layers 163 + 200, 1.0 times fewer mult-adds",
    "ptb-gru-small-lean": "118.7 / 114.8, layers 59 + 121, 1.9 times fewer mult-adds",
    "ptb-gru-medium": "105.3 / 102.6",
    "ptb-gru-medium-lean": "111.3 / 108.5, layers 244 + 414, 2.1 times fewer mult-adds",
    "ptb-rnn-small": "158.0 / 152.0",
    "ptb-rnn-small-iss": "185.3 / 178.5, layers 200 + 200, nothing removed",
    "ptb-rnn-small-lean": "179.0 / 172.2, layers 106 + 149, 1.4 times fewer mult-adds",
}


def _of(cell: Cell, size: str) -> dict[str, Recipe]:
    dense = replace(DENSE[size], cell=cell, rate=RATE[cell], **EPOCHS[size])
    sparse = replace(dense, keep=KEEP[size], schedule="thirds", **{"strength": STRENGTH} | SPARSE[cell])
    ours = replace(lean(dense, size), **EPOCHS[size] | OURS[cell, size])
    name = f"ptb-{cell}-{size}"
    return {
        name: Recipe(dense, f"{CALLED[cell]}, dense, in the place of the LSTM"),
        f"{name}-iss": Recipe(sparse, "the paper's group lasso from scratch"),
        f"{name}-lean": Recipe(ours, "ours: compaction while training, the embedding learned along"),
        f"{name}-direct": Recipe(dense, "a dense model of the widths given with --widths"),
    }


PTB_GRU: dict[str, Recipe] = with_results(
    _of("gru", "small") | _of("gru", "medium") | _of("rnn", "small"), measured=MEASURED
)
