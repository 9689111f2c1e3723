"""The paper's first experiment: a two-layer LSTM language model of Penn Treebank, at three sizes.

Names say what a recipe is: ``ptb-lstm-SIZE`` is the dense model; ``-iss`` the paper's group lasso from scratch with the
schedule of its source, ``-iss-finetune`` the same from a trained dense model, ``-lean`` ours, ``-lean-tied`` ours with
one matrix for embedding and output, ``-l1`` the paper's comparison, ``-direct`` a dense model of widths given from the
start, ``-pruned`` a trained dense model cut at once and trained on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leanrnn.lab.language.config import Config
from leanrnn.lab.recipe import Recipe, with_results

__all__ = ["DENSE", "KEEP", "LEAN", "PTB_LSTM", "STRENGTH", "lean"]

DENSE = {
    "small": Config(embedding=200, widths=(200, 200), init=0.1, window=20, clip=5.0, constant=4, epochs=13, decay=0.5),
    "medium": Config(
        embedding=650, widths=(650, 650), init=0.05, window=35, clip=5.0, constant=6, epochs=39, decay=0.8, keep=0.5
    ),
    "large": Config(
        embedding=1500, widths=(1500, 1500), init=0.04, window=35, clip=10.0, constant=14, epochs=55, decay=1 / 1.15,
        keep=0.35,
    ),
}  # fmt: skip
KEEP = {"small": 1.0, "medium": 0.65, "large": 0.6}
"""Dropout of the sparse runs. The paper has one of the large size alone, with 0.6; the others are in proportion."""
STRENGTH = 2.45e-3
LEAN: dict[str, Any] = {
    "mode": "proximal", "scope": "all", "by_cost": True, "everywhere": False, "group_threshold": 0.05, "ramp": 0.2,
    "compact": 200, "penalised": 4, "afterwards": 0.3,
}  # fmt: skip
"""Ours: a proximal step after the optimizer's, layers penalised by what a component costs, the embedding's width
learned along, the dead cut out while training, and a weaker penalty once the structure is found."""
LEAN_AT: dict[str, dict[str, Any]] = {
    "small": {"strength": 6e-3, "epochs": 10, "constant": 4, "decay": 0.4},
    "medium": {"strength": 3.5e-3, "ramp": 1.0, "penalised": 10, "epochs": 26, "constant": 12, "decay": 0.75},
    "large": {"strength": 6e-3, "epochs": 35, "constant": 10, "decay": 0.85},
}
"""What the size asks for: a wider model has more to lose, and takes longer to. The large one has not been tried."""
TIED: dict[str, Any] = {
    "tied": True, "strength": 4.5e-3, "ramp": 0.2, "penalised": 5, "epochs": 34, "constant": 14, "decay": 0.87,
    "average": 0.9995, "drop_recurrent": 0.25,
}  # fmt: skip
"""What else the medium model can have: fewer weights to learn by heart with, and what keeps it from doing so."""

MEASURED = {
    "ptb-lstm-small": "119.2 / 114.3",
    "ptb-lstm-small-iss": "106.9 / 102.7, layers 98 + 175, 1.3 times fewer mult-adds",
    "ptb-lstm-small-lean": "113.9 / 110.2, layers 85 + 94, 2.4 times fewer mult-adds, in 0.6 of the time",
    "ptb-lstm-medium-iss": "90.1 / 85.6, layers 468 + 650, 1.2 times fewer mult-adds",
    "ptb-lstm-medium-lean": "88.1 / 84.5, layers 222 + 330, 3.0 times fewer mult-adds, in 0.35 of the time",
    "ptb-lstm-medium-lean-tied": "80.3 / 77.2, layers 163 + 334, 3.1 times fewer mult-adds, in 0.46 of the time",
}
PUBLISHED = {
    "ptb-lstm-small": "121.4 / 115.9",
    "ptb-lstm-medium": "86.2 / 82.1",
    "ptb-lstm-large": "82.6 / 78.6",
    "ptb-lstm-large-iss": "82.6 / 78.7, layers 373 + 315, 7.5 times fewer mult-adds",
    "ptb-lstm-large-l1": "82.4 / 78.6, layers 996 + 1280",
    "ptb-lstm-large-direct": "90.3 / 85.7 with layers of 373 and 315",
}


def lean(dense: Config, size: str) -> Config:
    """Ours for a dense model of this size."""
    return replace(dense, keep=KEEP[size], **LEAN | LEAN_AT[size])


def _of(size: str) -> dict[str, Recipe]:
    dense = DENSE[size]
    sparse = replace(dense, strength=STRENGTH, keep=KEEP[size], schedule="thirds")
    name = f"ptb-lstm-{size}"
    return {
        name: Recipe(dense, "the dense model"),
        f"{name}-iss": Recipe(sparse, "the paper's group lasso from scratch"),
        f"{name}-iss-finetune": Recipe(sparse, "the same, from a trained dense model", start=name),
        f"{name}-l1": Recipe(
            replace(sparse, penalty="l1", strength=1e-4, threshold=2e-4),
            "l1 instead, from a trained dense model; what is dead as a whole is cut out at the end",
            start=name,
        ),
        f"{name}-lean": Recipe(
            lean(dense, size),
            "ours: compaction while training, the embedding learned along, layers weighed by their cost",
        ),
        f"{name}-direct": Recipe(dense, "a dense model of the widths given with --widths"),
        f"{name}-pruned": Recipe(
            replace(dense, constant=0),
            "a trained dense model cut at once to --keep-widths, then trained on",
            start=name,
        ),
    }


TIED_TOO = Recipe(
    replace(lean(DENSE["medium"], "medium"), **TIED),
    "ours, with one matrix for embedding and output, weights averaged, weights from state to state dropped",
)
PTB_LSTM: dict[str, Recipe] = with_results(
    _of("small") | _of("medium") | _of("large") | {"ptb-lstm-medium-lean-tied": TIED_TOO},
    measured=MEASURED,
    published=PUBLISHED,
)
