"""Costs: counted mult-adds against the formula, times that make sense, and a model left as it was."""

import pytest
import torch

import leanrnn
from leanrnn.cost import mult_adds
from leanrnn.lab.language.model import LanguageModel


def formula(words: int, embedding: int, widths: tuple[int, ...]) -> int:
    """Mult-adds for a word: four gates of every layer, then the scores."""
    sizes = (embedding, *widths)
    return sum(4 * m * (n + m) for n, m in zip(sizes, widths, strict=False)) + widths[-1] * words


@pytest.mark.parametrize(
    ("embedding", "widths", "millions"),
    [(1500, (1500, 1500), 51.0), (1500, (373, 315), 6.81), (1500, (381, 535), 10.17), (200, (200, 200), 2.64)],
)
def test_mult_adds_of_the_paper(embedding, widths, millions):
    with torch.device("meta"):
        model, words = LanguageModel(10_000, embedding, widths), torch.zeros(30, 10, dtype=torch.long)
    counted = mult_adds(model, words) / 300
    assert counted == formula(10_000, embedding, widths) and counted / 1e6 == pytest.approx(millions, abs=0.01)


def test_ratio_of_the_paper():
    assert formula(10_000, 1500, (1500, 1500)) / formula(10_000, 1500, (373, 315)) == pytest.approx(7.49, abs=0.005)


def test_measure_leaves_no_trace():
    model, threads = LanguageModel(50, 8, (6, 5)).train(), torch.get_num_threads()
    words = torch.zeros(4, 3, dtype=torch.long)
    for example in (words, (words,), {"words": words}):
        found = leanrnn.measure(model, example, threads=1, seconds=0.01)
        assert (
            found.threads == 1 and found.calls >= 10 and found.quartiles[0] <= found.milliseconds <= found.quartiles[1]
        )
        assert found.mult_adds == 12 * formula(50, 8, (6, 5))
        assert found.weights == sum(p.numel() for p in model.parameters())
    assert model.training and torch.get_num_threads() == threads
    with pytest.raises(leanrnn.errors.ConfigError, match="threads is 0"):
        leanrnn.measure(model, words, threads=0)
