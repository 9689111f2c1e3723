"""What came out of recipes: measured with these settings (``results/`` has the runs), or as others published it."""

from __future__ import annotations

__all__ = ["expected"]

MEASURED = {
    "ptb-lstm-small": "119.2 / 114.3",
    "ptb-lstm-small-iss": "106.9 / 102.7, layers 98 + 175, 1.3 times fewer mult-adds",
    "ptb-lstm-small-lean": "113.9 / 110.2, layers 85 + 94, 2.4 times fewer mult-adds, in 0.6 of the time",
    "ptb-lstm-medium-iss": "90.1 / 85.6, layers 468 + 650, 1.2 times fewer mult-adds",
    "ptb-lstm-medium-lean": "88.1 / 84.5, layers 222 + 330, 3.0 times fewer mult-adds, in 0.35 of the time",
    "ptb-lstm-medium-lean-tied": "80.3 / 77.2, layers 163 + 334, 3.1 times fewer mult-adds, in 0.46 of the time",
    "ptb-gru-small": "126.9 / 121.9",
    "ptb-gru-small-iss": "114.3 / 110.1, layers 163 + 200, 1.0 times fewer mult-adds",
    "ptb-gru-small-lean": "118.7 / 114.8, layers 59 + 121, 1.9 times fewer mult-adds",
    "ptb-gru-medium": "105.3 / 102.6",
    "ptb-gru-medium-lean": "111.3 / 108.5, layers 244 + 414, 2.1 times fewer mult-adds",
    "ptb-rnn-small": "158.0 / 152.0",
    "ptb-rnn-small-iss": "185.3 / 178.5, layers 200 + 200, nothing removed",
    "ptb-rnn-small-lean": "179.0 / 172.2, layers 106 + 149, 1.4 times fewer mult-adds",
    "ptb-rhn-small": "94.3 / 91.0",
    "ptb-rhn-small-lean": "97.4 / 94.7, layers 144, 1.5 times fewer mult-adds",
    "squad-bidaf": "in 3000 of 10 000 steps exact match 61.9, F1 72.8",
    "squad-bidaf-iss": "in 3000 of 10 000 steps exact match 58.8, F1 70.7, LSTMs 36 + 21 + 26 + 70 + 43 + 23",
    "squad-bidaf-iss-finetune": "in 3000 of 10 000 steps exact match 64.4, F1 74.8, LSTMs 84 + 80 + 76 + 91 + 52 + 44",
    "squad-bidaf-lean": "in 3000 of 10 000 steps exact match 60.8, F1 71.9, LSTMs 64 + 56 + 76 + 88 + 56 + 44",
}
"""Here: perplexity of the validation and the test text; of question answering, what a third of its steps gives."""
PUBLISHED = {
    "ptb-lstm-small": "121.4 / 115.9",
    "ptb-lstm-medium": "86.2 / 82.1",
    "ptb-lstm-large": "82.6 / 78.6",
    "ptb-lstm-large-iss": "82.6 / 78.7, layers 373 + 315, 7.5 times fewer mult-adds",
    "ptb-lstm-large-l1": "82.4 / 78.6, layers 996 + 1280",
    "ptb-lstm-large-direct": "90.3 / 85.7 with layers of 373 and 315",
    "ptb-rhn": "67.9 / 65.4",
    "ptb-rhn-iss": "68.1 / 65.4, width 517",
    "squad-bidaf": "exact match 68.0, F1 77.9",
    "squad-bidaf-iss": "exact match 66.3, F1 76.2, LSTMs 51 + 33 + 42 + 58 + 37 + 26",
    "squad-bidaf-iss-finetune": "exact match 66.6, F1 76.4, LSTMs 84 + 90 + 38 + 46 + 34 + 21",
}
"""The same by others, for question answering exact match and F1; which strength made them is not always told."""


def expected(name: str) -> str:
    """What to expect of a recipe, in a few words. ::

    expected("ptb-lstm-small")  # "119.2 / 114.3; published 121.4 / 115.9"
    """
    known = [MEASURED[name]] if name in MEASURED else []
    return "; ".join([*known, *([f"published {PUBLISHED[name]}"] if name in PUBLISHED else [])])
