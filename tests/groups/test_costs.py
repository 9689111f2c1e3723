"""Costs as functions of the widths: extents of axes, by counting what is left; marginal costs; JSON."""

import itertools

import numpy as np
import pytest
import torch

import leanrnn
from leanrnn.errors import GroupsError
from leanrnn.groups import Cost, Groups
from leanrnn.groups.extents import extent, spread, times
from tests.discovery.test_known_answers import LanguageModel


def left(layers, components, kept) -> int:
    """How many indices of an axis stay, counted one by one."""
    pairs = zip(layers.tolist(), components.tolist(), strict=True)
    return sum(all(la < 0 or c in kept[la] for la, c in zip(ls, cs, strict=True)) for ls, cs in pairs)


def table(*rows):
    """Rows of (layer, component) pairs as the two arrays that ``extent`` takes."""
    flat = [(i, layer, component) for i, row in enumerate(rows) for layer, component in row]
    return spread(*np.array([*flat, (0, 0, 0)][: len(flat)] or np.zeros((0, 3)), np.int64).T, len(rows))


AXES = {
    "constant": [[], [], []],
    "gates": [[(0, k)] for _ in range(4) for k in range(3)],
    "joined": [*([(0, k)] for k in range(3)), *([(1, k)] for k in range(4)), [], []],
    "outer product": [[(0, i), (1, j)] for i in range(3) for j in range(4)],
    "outer product with itself": [[(0, i), (0, j)] for i in range(3) for j in range(3)],
    "pairs either way": [[(0, i), (0, j)] for i in range(3) for j in range(3) if i != j],
    "three widths": [[(0, i), (1, j), (2, k)] for k in range(2) for i in range(3) for j in range(4)],
}


@pytest.mark.parametrize("name", AXES)
def test_extent_is_what_stays(name):
    layers, components = table(*AXES[name])
    found = extent(layers, components, [3, 4, 2])
    kept = [range(1, n + 1) for n in (3, 4, 2)]
    for widths in itertools.product(*kept):
        chosen = [set(range(n - w, n)) for n, w in zip((3, 4, 2), widths, strict=True)]
        formula = sum(number * np.prod([widths[i] for i in key]) for key, number in found.items())
        assert left(layers, components, chosen) == formula


@pytest.mark.parametrize("rows", [[[(0, 0)], [(0, 0)], [(0, 1)], [(0, 2)]], [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]])
def test_an_axis_that_no_formula_fits_is_none(rows):
    assert extent(*table(*rows), [3, 4]) is None


def test_products_multiply_and_collect():
    assert times([{(0,): 4, (): 1}, {(0,): 1, (1,): 2}], 3) == {(0, 0): 12, (0, 1): 24, (0,): 3, (1,): 6}


def test_marginal_is_the_difference():
    cost = Cost({("a", "a"): 4, ("a", "b"): 8, ("b",): 3, (): 7})
    widths = {"a": 5, "b": 6}
    assert cost.at(widths) == 4 * 25 + 8 * 30 + 18 + 7
    for name in widths:
        assert cost.marginal(widths, name) == cost.at(widths) - cost.at(widths | {name: widths[name] - 1})
    many = {"a": np.arange(1, 6), "b": 6}
    assert cost.at(many).tolist() == [cost.at({"a": a, "b": 6}) for a in range(1, 6)]
    assert cost.marginal(many, "b").tolist() == [8 * a + 3 for a in range(1, 6)]
    with pytest.raises(GroupsError, match="layer 'b', which has no width"):
        cost.at({"a": 1})


def test_costs_survive_cuts_json_and_binding():
    model, words = LanguageModel(8), torch.zeros(3, 2, dtype=torch.long)
    groups = leanrnn.discover(model, words)
    again = Groups.from_json(groups.to_json(), model)
    assert again.costs == groups.costs
    small = leanrnn.shrink(model, groups, keep_widths={"rnn.l0": 3, "rnn.l1": 5})
    fresh = leanrnn.discover(small, words)
    for name in ("mult_adds", "weights", "bytes"):
        assert fresh.costs[name].terms == groups.costs[name].terms
    groups.layers = groups.cut(groups.keep_mask({"rnn.l0": [1, 2, 5], "rnn.l1": [0, 1, 2, 3, 7]}))
    assert groups.costs.weights.at(groups.widths) == sum(p.numel() for p in small.parameters())
    assert groups.costs.bytes.at(groups.widths) == 4 * groups.costs.weights.at(groups.widths)


def test_groups_made_by_hand_have_no_costs():
    with pytest.raises(GroupsError, match="know no costs"):
        _ = Groups([]).costs
    with pytest.raises(GroupsError, match="no cost 'seconds'"):
        _ = leanrnn.discover(LanguageModel(4), torch.zeros(3, 2, dtype=torch.long)).costs["seconds"]
