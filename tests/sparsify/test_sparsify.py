"""The sparsifier inside an optimizer's step: against the same penalty in the loss, in every optimizer and setting."""

import io

import pytest
import torch
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode

from leanrnn.errors import GroupsError, LeanRNNWarning
from leanrnn.groups.norms import alive
from leanrnn.penalties.group_lasso import GroupLasso
from leanrnn.penalties.l1 import L1
from leanrnn.sparsify.sparsifier import Sparsifier
from leanrnn.sparsify.strength import linear_ramp
from leanrnn.sparsify.thresholds import ElementThreshold, GroupThreshold
from tests.support.handmade import kill_, language
from tests.support.training import (
    OPTIMIZERS,
    STRENGTH,
    TAU,
    batches,
    by_hand,
    data_loss,
    hooked,
    same,
    threshold_by_hand,
)

VARIANTS = [
    (name, variant)
    for name in OPTIMIZERS
    for variant in ({"foreach": False}, {"foreach": True}, {"fused": True})
    if not (name == "rmsprop" and "fused" in variant)
]


@pytest.mark.parametrize("name, variant", VARIANTS)
def test_hook_equals_penalty_in_the_loss_and_threshold_by_hand(name, variant):
    def make(parameters):
        return OPTIMIZERS[name](parameters, **variant)

    model, sparsifier = hooked(make)
    assert same(model, by_hand(make)) and sparsifier.steps == 6
    assert any((p == 0).any() for p in model.parameters())


def test_loss_mode_is_clipped_with_the_data_gradient():
    make, clip = OPTIMIZERS["sgd"], 0.3
    model, groups = language()
    optimizer = make(model.parameters())
    sparsifier = Sparsifier(groups, strength=STRENGTH, threshold=TAU, mode="loss").attach(optimizer)
    for tokens in batches(6):
        optimizer.zero_grad()
        (data_loss(model, tokens) + sparsifier.loss()).backward()
        clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    assert same(model, by_hand(make, clip=clip))
    with pytest.raises(GroupsError, match="acts by itself"):
        hooked(make, steps=1)[1].loss()


def test_gradients_accumulate_and_the_penalty_acts_once_a_step():
    model, groups = language()
    optimizer = OPTIMIZERS["momentum"](model.parameters())
    sparsifier = Sparsifier(groups, strength=STRENGTH, threshold=TAU).attach(optimizer)
    for tokens in batches(6):
        optimizer.zero_grad()
        for _ in range(2):
            (data_loss(model, tokens) / 2).backward()
        optimizer.step()
    assert same(model, by_hand(OPTIMIZERS["momentum"])) and sparsifier.steps == 6


@pytest.mark.parametrize("keyword", [True, False])
def test_gradients_made_by_a_closure_inside_the_step(keyword):
    model, groups = language()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    Sparsifier(groups, strength=STRENGTH, threshold=TAU).attach(optimizer)
    for tokens in batches(6):

        def closure(tokens=tokens):
            optimizer.zero_grad()
            loss = data_loss(model, tokens)
            loss.backward()
            return loss

        assert (optimizer.step(closure=closure) if keyword else optimizer.step(closure)) > 0
    assert same(model, by_hand(OPTIMIZERS["adam"]))


def test_proximal_step_uses_the_learning_rate_of_each_parameter():
    (model, groups), (twin, twin_groups) = language(), language()
    split = [{"params": [model.head.weight], "lr": 0.5}, {"params": [p for p in model.parameters()][:-2], "lr": 0.1}]
    optimizer = torch.optim.SGD([*split, {"params": [model.head.bias]}], lr=0.0)
    Sparsifier(groups, strength=0.2, threshold=None, mode="proximal").attach(optimizer)
    optimizer.step()
    steps = {p: 0.5 * 0.2 if p is twin.head.weight else 0.1 * 0.2 for p in twin.parameters()}
    GroupLasso(twin_groups).proximal_(steps)
    assert same(model, twin, 1e-15)


def test_proximal_mode_makes_exact_zeros_without_a_threshold():
    make = OPTIMIZERS["sgd"]
    _, sparsifier = hooked(make, steps=200, strength=0.3, threshold=None, mode="proximal")
    assert all(layer.alive < layer.width for layer in sparsifier.status().layers)


def test_a_maximising_optimizer_still_shrinks_groups():
    model, groups = language()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    penalty = GroupLasso(groups)
    Sparsifier(groups, strength=1.0, threshold=None).attach(optimizer)
    before = penalty.value().item()
    optimizer.step()
    assert penalty.value() < before


def test_two_optimizers_share_the_parameters():
    model, groups = language()
    make = OPTIMIZERS["momentum"]
    pair = [make(model.rnn.parameters()), make([*model.head.parameters(), *model.embedding.parameters()])]
    sparsifier = Sparsifier(groups, strength=STRENGTH, threshold=None).attach(pair)
    reference = by_hand(make, steps=1)
    data_loss(model, batches(1)[0]).backward()
    grads = model.head.weight.grad.clone()
    pair[0].step()
    assert torch.equal(model.head.weight.grad, grads) and sparsifier.steps == 0
    pair[1].step()
    threshold_by_hand(model)
    # The second optimizer sees norms after the first one's step.
    assert same(model, reference, 1e-2) and sparsifier.steps == 1


def test_l1_group_threshold_and_objects_of_ones_own():
    make = OPTIMIZERS["sgd"]
    thresholds = [ElementThreshold(1e-3, biases=True), GroupThreshold(1.0)]
    model, sparsifier = hooked(make, steps=3, penalty="l1", threshold=thresholds)
    assert isinstance(sparsifier.penalty, L1) and "rnn.bias_ih_l0" in sparsifier.touches
    assert not (model.rnn.weight_hh_l0.abs() < 1e-3).logical_and(model.rnn.weight_hh_l0 != 0).any()


def test_strength_follows_its_schedule():
    _, sparsifier = hooked(OPTIMIZERS["sgd"], steps=4, strength=linear_ramp(1.0, 8))
    assert sparsifier.strength == 0.5 and sparsifier.status().strength == 0.5


class NoReadBack(TorchDispatchMode):
    """Fails when a number is read back from a device, which would make a GPU wait."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name().split(".")[0] in (
            "aten::_local_scalar_dense",
            "aten::nonzero",
            "aten::equal",
            "aten::is_nonzero",
        ):
            raise AssertionError(f"{func} reads back")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", ["gradient", "proximal"])
@pytest.mark.parametrize("penalty", ["group_lasso", "l1"])
def test_a_step_reads_nothing_back(mode, penalty):
    model, groups = language()
    optimizer = OPTIMIZERS["momentum"](model.parameters())
    thresholds = [ElementThreshold(1e-4), GroupThreshold(1e-4)]
    Sparsifier(groups, strength=0.1, threshold=thresholds, penalty=penalty, mode=mode).attach(optimizer)
    data_loss(model, batches(1)[0]).backward()
    with NoReadBack():
        optimizer.step()
        optimizer.step()
    groups.bind(model.to("meta"))
    optimizer.state.clear()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()


def test_a_parameter_that_no_optimizer_holds_is_named():
    model, groups = language()
    optimizer = torch.optim.SGD(model.rnn.parameters(), lr=0.1)
    with pytest.raises(GroupsError, match=r"head\.weight"):
        Sparsifier(groups, strength=0.1).attach(optimizer)
    model.head.weight.requires_grad_(False)
    Sparsifier(groups, strength=0.1).attach(optimizer)


def test_the_dead_that_detach_leaves_behind_are_told():
    model, groups = language()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    kill_(groups, {"rnn.l0": [1, 3]})
    sparsifier = Sparsifier(groups, strength=0.1, threshold=1e-3).attach(optimizer)
    with pytest.warns(LeanRNNWarning, match=r"2 in rnn\.l0\. From now on nothing keeps them at zero\."):
        sparsifier.detach()
    assert int(alive(groups)["rnn.l0"].sum()) == groups.widths["rnn.l0"] - 2
    sparsifier.attach(optimizer).compact()
    sparsifier.detach()  # nothing is left to tell


def test_the_last_component_of_a_layer_is_not_told_as_left_behind():
    model, groups = language()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    kill_(groups, {"rnn.l0": list(range(groups.widths["rnn.l0"]))})
    sparsifier = Sparsifier(groups, strength=0.1).attach(optimizer)
    with pytest.warns(LeanRNNWarning, match="only one component is left"):
        sparsifier.compact()
    sparsifier.detach()


def test_detach_ends_it_and_attaching_twice_is_refused():
    model, groups = language()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    sparsifier = Sparsifier(groups, strength=0.1).attach(optimizer)
    with pytest.raises(GroupsError, match="attached already"):
        sparsifier.attach(optimizer)
    sparsifier.detach()
    before = model.head.weight.detach().clone()
    optimizer.step()
    assert torch.equal(model.head.weight, before) and sparsifier.steps == 0
    assert sparsifier.attach(optimizer) is sparsifier


@pytest.mark.parametrize(
    "settings",
    [{"strength": -1.0}, {"strength": float("nan")}, {"threshold": -1.0}, {"mode": "magic"}, {"penalty": "ridge"}],
)
def test_impossible_settings_are_refused_at_construction(settings):
    with pytest.raises(GroupsError):
        Sparsifier(language()[1], **{"strength": 0.1} | settings)


def test_state_goes_through_a_file_and_checks_what_it_meets():
    _, sparsifier = hooked(OPTIMIZERS["sgd"], steps=3, strength=linear_ramp(1.0, 10))
    sparsifier.compact(every=5)
    file = io.BytesIO()
    torch.save(sparsifier.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    _, other = hooked(OPTIMIZERS["sgd"], steps=0, strength=linear_ramp(1.0, 10))
    other.load_state_dict(state)
    assert other.strength == 0.3 and other.state_dict() == state
    cases = {"widths": {"rnn.l0": 3}, "mode": "loss", "penalty": {"kind": "L1", "state": {}}, "format": 99}
    for key, value in cases.items():
        with pytest.raises(GroupsError):
            other.load_state_dict(state | {key: value})
    with pytest.raises(GroupsError, match="not the state"):
        other.load_state_dict({})


def test_status_is_a_line_and_a_flat_dict():
    _, sparsifier = hooked(OPTIMIZERS["sgd"], steps=2)
    status = sparsifier.status()
    assert "\n" not in str(status) and "rnn.l0 6/6" in str(status)
    flat = status.as_dict()
    assert flat["rnn.l1/alive"] == flat["rnn.l1/width"] == 6 and flat["step"] == 2
    assert flat["rnn.l0/norm_q0"] <= flat["rnn.l0/norm_q50"] <= flat["rnn.l0/norm_q100"]
    assert flat["penalty"] == pytest.approx(STRENGTH * float(sparsifier.penalty.value().detach()))
