"""Scores as the official script of SQuAD v1.1 gives them, and the search for a span."""

import pytest
import torch

from leanrnn.lab.squad.metric import best_span, exact_match, f1, normalized, scores


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("The Denver Broncos", "denver broncos"),
        ("  a\tcat \n", "cat"),
        ("A.B.C., Inc.", "abc inc"),
        ("the-end", "theend"),  # punctuation goes first, without a space, so "the" is no word here
        ("U.S.", "us"),
        ("another theatre", "another theatre"),
        ("$5,000", "5000"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation is taken out
        ("THE", ""),
        ("l'a mer", "la mer"),
        ("été à la mer", "été à la mer"),
    ],
)
def test_normalised_as_the_official_script_does(answer, wanted):
    assert normalized(answer) == wanted


@pytest.mark.parametrize(
    ("answer", "truth", "exact", "overlap"),
    [
        ("Denver Broncos", "the Denver Broncos!", 1, 1),
        ("Broncos", "Denver Broncos", 0, 2 / 3),
        ("a a b", "a b b", 0, 2 * 1 / 3),  # "a" is an article: b against b b
        ("x x y", "x y y", 0, 2 / 3),  # words count as often as they are there
        ("", "anything", 0, 0),
        ("the", "a", 1, 0),  # both empty: a match without a word in common, by the script
        ("Santa Clara, California", "Levi's Stadium", 0, 0),
        ("10 million", "$10 million", 1, 1),
    ],
)
def test_match_and_overlap(answer, truth, exact, overlap):
    assert exact_match(answer, truth) == exact
    assert f1(answer, truth) == pytest.approx(overlap, abs=1e-15)
    assert f1(truth, answer) == f1(answer, truth)


def test_best_of_several_truths_and_no_answer_is_wrong():
    truths = [("1", ["Carolina Panthers", "Denver Broncos"]), ("2", ["gold"]), ("3", ["x"])]
    assert scores({"1": "Broncos", "2": "Gold."}, truths) == pytest.approx((100 / 3, 100 * (2 / 3 + 1) / 3))
    assert scores({}, []) == (0.0, 0.0)


@pytest.mark.parametrize("length", [1, 2, 7, 30])
def test_best_span_is_the_best_of_all(length):
    start, end = torch.randn(20, length, dtype=torch.double), torch.randn(20, length, dtype=torch.double)
    first, last, probability = best_span(start, end)
    table = start.softmax(-1).unsqueeze(2) * end.softmax(-1).unsqueeze(1)
    best = table.triu().flatten(1).max(-1)
    assert torch.equal(first * length + last, best.indices)
    torch.testing.assert_close(probability, best.values)
    assert bool((first <= last).all())
