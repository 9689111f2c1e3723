"""Element-wise and group-wise thresholds, and the choice of tau."""

import numpy as np
import pytest
import torch

from leanrnn.errors import GroupsError
from leanrnn.groups.norms import alive, group_norms
from leanrnn.sparsify.thresholds import ElementThreshold, GroupThreshold, choose_threshold
from tests.support.handmade import kill_, language

WEIGHTS = {f"rnn.weight_{part}_l{i}" for part in ("ih", "hh") for i in (0, 1)} | {"head.weight"}
BIASES = {f"rnn.bias_{part}_l{i}" for part in ("ih", "hh") for i in (0, 1)}


def snapshot(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def changed(model, before):
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tau", [1e-4, 0.1, 0.25, 3.0])
def test_only_strictly_smaller_magnitudes_become_zero(dtype, tau):
    model, groups = language(dtype=dtype)
    nearest = torch.tensor(tau, dtype=dtype)
    around = [nearest, torch.nextafter(nearest, nearest * 0), torch.nextafter(nearest, nearest * 4)]
    model.head.weight.data[0, :3] = torch.stack(around)
    model.head.weight.data[1, :3] = -torch.stack(around)
    before = snapshot(model)
    ElementThreshold(tau).apply_(groups)
    for name in WEIGHTS:
        old = before[name]
        assert torch.equal(model.get_parameter(name), torch.where(old.double().abs() < tau, 0, old))


def test_zero_tau_does_nothing():
    model, groups = language()
    before = snapshot(model)
    ElementThreshold(0.0).apply_(groups)
    assert not changed(model, before)


@pytest.mark.parametrize(
    "threshold, touched",
    [
        (ElementThreshold(9.0), WEIGHTS),
        (ElementThreshold(9.0, biases=True), WEIGHTS | BIASES),
        (ElementThreshold(9.0, parameters=["*"]), WEIGHTS | {"embedding.weight"}),
        (ElementThreshold(9.0, parameters=["head*"], biases=True), {"head.weight", "head.bias"}),
        (GroupThreshold(99.0), WEIGHTS | BIASES),
        (GroupThreshold(99.0, biases=False), WEIGHTS),
    ],
)
def test_says_which_parameters_it_touches(threshold, touched):
    model, groups = language()
    before = snapshot(model)
    threshold.apply_(groups)
    assert set(threshold.touches(groups)) == touched == changed(model, before)


@pytest.mark.parametrize("threshold", [ElementThreshold(9.0), GroupThreshold(99.0)])
def test_frozen_and_foreign_parameters_are_left_alone(threshold):
    model, groups = language()
    model.head.weight.requires_grad_(False)
    before = snapshot(model)
    threshold.apply_(groups, {model.head.weight, model.rnn.weight_hh_l0})
    assert changed(model, before) == {"rnn.weight_hh_l0"}


def test_group_threshold_zeroes_whole_groups_and_nothing_else():
    (model, groups), (twin, twin_groups) = language(), language()
    norms = group_norms(groups)
    cut = float(torch.cat(list(norms.values())).median()) + 1e-6
    GroupThreshold(cut).apply_(groups)
    dead = {name: (n < cut).nonzero().flatten().tolist() for name, n in norms.items()}
    assert {name: np.flatnonzero(~mask).tolist() for name, mask in alive(groups).items()} == dead
    kill_(twin_groups, dead, biases=True)
    assert any(dead.values()) and not changed(model, snapshot(twin))


def test_on_meta_nothing_is_read_back():
    model, groups = language()
    groups.bind(model.to("meta"))
    ElementThreshold(1e-4).apply_(groups)
    GroupThreshold(1e-4).apply_(groups)


def test_choose_threshold_finds_the_largest_harmless_tau_and_restores_the_model():
    model, groups = language()
    before = snapshot(model)
    total = sum(float(before[name].abs().sum()) for name in WEIGHTS)

    def lost(candidate):
        left = sum(float(candidate.get_parameter(name).detach().abs().sum()) for name in WEIGHTS)
        return 1 + (total - left) / total

    tau = choose_threshold(model, groups, lost, tolerance=0.01, evaluations=30)
    assert not changed(model, before)
    sizes = torch.cat([before[name].abs().flatten() for name in WEIGHTS]).sort().values
    harmless = sizes.cumsum(0) / total <= 0.01
    assert sizes[harmless][-1] < tau <= sizes[~harmless][0] * (1 + 1e-6)
    higher = choose_threshold(model, groups, lambda m: -lost(m), tolerance=0.01, evaluations=30, higher_is_better=True)
    assert higher == pytest.approx(tau)


def test_choose_threshold_restores_the_model_when_evaluation_fails():
    model, groups = language()
    before, calls = snapshot(model), []

    def evaluate(_):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("no data left")
        return 0.0

    with pytest.raises(RuntimeError, match="no data left"):
        choose_threshold(model, groups, evaluate)
    assert not changed(model, before)


def test_no_harmless_threshold_is_zero_and_nan_is_harm():
    model, groups = language()
    scores = iter([1.0] + [float("nan")] * 20)
    assert choose_threshold(model, groups, lambda _: next(scores)) == 0.0


@pytest.mark.parametrize("make", [ElementThreshold, GroupThreshold])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_values_are_refused(make, value):
    with pytest.raises(GroupsError, match="at least 0"):
        make(value)
