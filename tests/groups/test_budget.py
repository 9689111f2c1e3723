"""Budgets: what they mean, what is refused, and that the choice within one is the best there is."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.cost import mult_adds
from leanrnn.errors import BudgetError, GroupsError
from leanrnn.groups import Cost, Limits, keep_evenly, keep_within
from tests.discovery.test_known_answers import LanguageModel

WORDS = torch.zeros(3, 2, dtype=torch.long)


@pytest.fixture(scope="module")
def language():
    torch.manual_seed(0)
    model = LanguageModel(40)
    return model, leanrnn.discover(model, WORDS)


def stack(sizes, gates=4, given=5, results=50):
    """What a stack of recurrent layers costs, and its widths."""
    names = [f"l{i}" for i in range(len(sizes))]
    terms = {(names[0],): gates * given}
    for i, name in enumerate(names):
        terms[name, name] = gates
        if i:
            terms[names[i - 1], name] = gates
    terms[(names[-1],)] = terms.get((names[-1],), 0) + results
    return Cost(terms), dict(zip(names, sizes, strict=True))


def limits_of(cost, widths, most, round_to=1, floors=1):
    start = float(cost.at(widths))
    return Limits({"c": cost}, {"c": most}, {"c": start}, widths, widths, dict.fromkeys(widths, floors), round_to)


def best_by_trying(limits, scores):
    """The most that any widths within the limits are worth."""
    worth = {n: np.concatenate([[0], np.cumsum(np.sort(s)[::-1])]) for n, s in scores.items()}
    every = itertools.product(*(limits.allowed(n, len(s)) for n, s in scores.items()))
    tried = (dict(zip(scores, widths, strict=True)) for widths in every)
    return max(sum(worth[n][w] for n, w in widths.items()) for widths in tried if limits.hold(widths))


@pytest.mark.parametrize("seed", range(40))
def test_two_layers_are_chosen_as_well_as_can_be(seed):
    rng = np.random.default_rng(seed)
    cost, widths = stack(rng.integers(4, 14, 2).tolist(), given=int(rng.integers(1, 30)))
    scores = {n: rng.lognormal(0, rng.uniform(0.1, 2), w) for n, w in widths.items()}
    round_to, floors = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    least = cost.at(dict.fromkeys(widths, 3))
    limits = limits_of(cost, widths, max(least, cost.at(widths) * rng.uniform(0.1, 0.9)), round_to, floors)
    masks = keep_within(limits, scores)
    kept = {n: int(mask.sum()) for n, mask in masks.items()}
    assert limits.hold(kept) and all(kept[n] in limits.allowed(n, widths[n]) for n in kept)
    assert sum(scores[n][masks[n]].sum() for n in masks) == pytest.approx(best_by_trying(limits, scores), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_more_layers_are_within_the_bound(seed):
    rng = np.random.default_rng(seed)
    cost, widths = stack(rng.integers(3, 8, int(rng.integers(3, 5))).tolist())
    scores = {n: rng.lognormal(0, rng.uniform(0.1, 1.5), w) for n, w in widths.items()}
    least = cost.at(dict.fromkeys(widths, 1))
    limits = limits_of(cost, widths, max(least, cost.at(widths) * rng.uniform(0.1, 0.9)))
    masks = keep_within(limits, scores)
    found, best = sum(scores[n][masks[n]].sum() for n in masks), best_by_trying(limits, scores)
    # Never worse than the best by more than the dearest single component, the grain of any knapsack.
    assert best - max(s.max() for s in scores.values()) <= found <= best + 1e-9


def test_the_best_of_a_layer_stay():
    cost, widths = stack([6, 6])
    scores = {"l0": np.array([3.0, 1, 4, 1, 5, 9]), "l1": torch.tensor([2.0, 6, 5, 3, 5, 8])}
    masks = keep_within(limits_of(cost, widths, cost.at(widths) * 0.4), scores)
    for name, mask in masks.items():
        given = np.asarray(scores[name])
        assert given[mask].min() >= given[~mask].max()


@pytest.mark.parametrize("share", ["10%", "25%", "50%", "90%"])
@pytest.mark.parametrize("name", ["mult_adds", "weights", "bytes"])
def test_lands_below_the_budget_and_as_near_as_can_be(language, name, share):
    model, groups = language
    if name != "mult_adds" and share in ("10%", "25%", "50%"):
        with pytest.raises(BudgetError, match=f"{name.replace('_', '-')} are not possible"):
            leanrnn.Budget(**{name: share}).limits(groups)  # the embedding is half of it, and stays
        return
    small = leanrnn.shrink(model, groups, budget=leanrnn.Budget(**{name: share}))
    parameters = list(small.parameters())
    got = {
        "mult_adds": mult_adds(small, WORDS),
        "weights": sum(p.numel() for p in parameters),
        "bytes": sum(p.numel() * p.element_size() for p in parameters),
    }[name]
    most = groups.costs[name].at(groups.widths) * float(share[:-1]) / 100
    widths = {f"rnn.l{i}": getattr(small.rnn, f"weight_hh_l{i}").shape[1] for i in (0, 1)}
    assert got == groups.costs[name].at(widths) <= most
    for layer, width in widths.items():  # not one component more fits
        assert width == 40 or groups.costs[name].at(widths | {layer: width + 1}) > most


def test_lands_within_two_percent_where_the_grain_allows():
    groups = leanrnn.discover(LanguageModel(200), WORDS, prove=False)
    scores = {name: np.random.default_rng(0).lognormal(0, 1, 200) for name in groups.names}
    for share in range(5, 100, 5):
        limits = leanrnn.Budget(mult_adds=f"{share}%").limits(groups)
        kept = {n: int(m.sum()) for n, m in keep_within(limits, scores).items()}
        assert 0.98 <= groups.costs.mult_adds.at(kept) / limits.most["mult_adds"] <= 1


@pytest.mark.parametrize("seed", range(20))
def test_all_layers_keep_the_same_part_and_the_largest_of_each(seed):
    rng = np.random.default_rng(seed)
    cost, widths = stack(rng.integers(30, 90, 3).tolist(), results=int(rng.integers(1, 5000)))
    scores = {n: rng.lognormal(0, 1, w) * 10.0**i for i, (n, w) in enumerate(widths.items())}
    limits = limits_of(cost, widths, cost.at(widths) * rng.uniform(0.15, 0.9))
    masks = keep_evenly(limits, scores)
    kept = {n: int(m.sum()) for n, m in masks.items()}
    parts = [{n: max(1, int(w * i / 1000 + 1e-9)) for n, w in widths.items()} for i in range(1001)]
    even = max((each for each in parts if limits.hold(each)), key=lambda each: sum(each.values()))
    assert limits.hold(kept) and all(kept[n] >= even[n] for n in kept)
    assert all(kept[n] == w or not limits.hold(kept | {n: kept[n] + 1}) for n, w in widths.items())
    for name, mask in masks.items():
        assert mask.all() or scores[name][mask].min() >= scores[name][~mask].max()


def test_even_widths_have_floors_multiples_and_an_end(language):
    _, groups = language
    a, b = groups.names
    scores = {name: np.random.default_rng(1).random(40) for name in groups.names}
    limits = leanrnn.Budget(mult_adds="90%", widths={a: "50%"}, floors={b: 33}, round_to=4).limits(groups)
    kept = {n: int(m.sum()) for n, m in keep_evenly(limits, scores).items()}
    assert limits.hold(kept) and kept[a] % 4 == 0 and kept[a] <= 20 and kept[b] == 36
    with pytest.raises(BudgetError, match="not possible with these floors"):
        keep_evenly(limits_of(*stack([9, 9]), most=1.0), {"l0": np.ones(9), "l1": np.ones(9)})


def test_several_limits_caps_floors_and_multiples(language):
    _, groups = language
    scores = {name: np.random.default_rng(1).random(40) for name in groups.names}
    a, b = groups.names
    budget = leanrnn.Budget(mult_adds="40%", weights=900_000, widths={a: "50%"}, floors={b: 9}, round_to=4)
    limits = budget.limits(groups)
    kept = {n: int(m.sum()) for n, m in keep_within(limits, scores).items()}
    assert limits.hold(kept) and kept[a] <= 20 and kept[b] >= 9
    assert all(width % 4 == 0 for width in kept.values())
    only = leanrnn.Budget(widths=7).limits(groups)
    assert {n: int(m.sum()) for n, m in keep_within(only, scores).items()} == {a: 7, b: 7}


def test_the_course_to_a_budget(language):
    _, groups = language
    limits = leanrnn.Budget(mult_adds="20%", widths=30, round_to=4).limits(groups)
    half = limits.eased(0.5)
    assert half.most["mult_adds"] == pytest.approx(0.6 * limits.start["mult_adds"])
    assert set(half.caps.values()) == {35} and half.round_to == 1
    assert limits.eased(0.0) is limits and limits.eased(1.0).hold(groups.widths)


def test_an_impossible_budget_is_refused_with_what_holds_the_rest():
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.LSTM(5, 8), nn.LSTM(8, 8)

        def forward(self, x):
            return self.last(self.first(x)[0])[0]

    groups = leanrnn.discover(Held(), torch.randn(3, 2, 5))
    with pytest.raises(BudgetError) as error:
        leanrnn.Budget(mult_adds="10%").limits(groups)
    text = str(error.value)
    least = groups.costs.mult_adds.at({"first.l0": 1})
    assert f"The least is {least:,}" in text and "first.l0 1" in text and "last.l0 (reaches output 0" in text
    with pytest.raises(BudgetError, match="floors"):
        leanrnn.Budget(mult_adds="60%", floors=8).limits(groups)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "limits nothing"),
        ({"mult_adds": "much"}, "mult_adds is 'much'"),
        ({"weights": -3}, "weights is -3"),
        ({"bytes": "120%"}, "bytes is '120%'"),
        ({"mult_adds": math.inf}, "mult_adds is inf"),
        ({"milliseconds": 3}, "fit_latency"),
        ({"mult_adds": "50%", "round_to": 0}, "round_to is 0"),
        ({"mult_adds": "50%", "floors": "x"}, "floors is 'x'"),
    ],
)
def test_budgets_that_make_no_sense(given, words):
    with pytest.raises(BudgetError, match=words):
        leanrnn.Budget(**given)


def test_scores_that_make_no_sense(language):
    model, groups = language
    limits = leanrnn.Budget(mult_adds="50%").limits(groups)
    with pytest.raises(GroupsError, match="scores for a"):
        keep_within(limits, {"a": np.ones(3)})
    with pytest.raises(GroupsError, match="not all finite"):
        keep_within(limits, {name: -np.ones(40) for name in groups.names})
    with pytest.raises(GroupsError, match="there is no layer 'x'"):
        leanrnn.Budget(widths={"x": 3}).limits(groups)
    with pytest.raises(GroupsError, match="budget= as well"):
        leanrnn.shrink(model, groups, scores={})
    with pytest.raises(GroupsError, match="a budget chooses the widths"):
        leanrnn.shrink(model, groups, budget=leanrnn.Budget(mult_adds="50%"), ratio=0.5)


def test_a_budget_that_holds_already_says_so(language):
    model, groups = language
    with pytest.warns(UserWarning, match="within the budget as it is"):
        small = leanrnn.shrink(model, groups, budget=leanrnn.Budget(mult_adds="100%"))
    assert small.rnn.hidden_size == 40


def test_without_scores_the_layers_are_worth_the_same(language):
    model, groups = language
    scaled = LanguageModel(40)
    scaled.load_state_dict(model.state_dict())
    with torch.no_grad():
        # Ten times larger weights in one layer change nothing in what the other is worth.
        scaled.rnn.weight_hh_l1.mul_(10)
        scaled.rnn.weight_ih_l1.mul_(10)
    budget = leanrnn.Budget(mult_adds="50%")
    small = leanrnn.shrink(scaled, groups, budget=budget, verify=False)
    assert all(width >= 5 for width in (small.rnn.weight_hh_l0.shape[1], small.rnn.weight_hh_l1.shape[1]))


def test_budgets_as_words():
    assert leanrnn.Budget.parse(["mult_adds=25%", "floors = 8", "round_to=4"]) == leanrnn.Budget(
        mult_adds="25%", floors="8", round_to=4
    )
    for words, message in (
        (["mult_adds"], "'mult_adds' is no part of a budget"),
        (["latency=3"], "is no part of a budget. Give NAME=AMOUNT, with mult_adds, weights"),
        (["bytes=1e6", "bytes=2e6"], "bytes is there already"),
        (["bytes=1e6", "round_to=2.5"], "round_to is '2.5'"),
        (["milliseconds=50%"], "need to be measured"),
    ):
        with pytest.raises(BudgetError, match=message):
            leanrnn.Budget.parse(words)
