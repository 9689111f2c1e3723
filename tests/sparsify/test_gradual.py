"""The way to a budget: it lands, leaves survivors alone, changes nothing when it cuts, and goes on where it was."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch

import leanrnn
from leanrnn import Budget, Course, Sparsifier, discover
from leanrnn.errors import BudgetError, GroupsError, LeanRNNWarning
from leanrnn.groups.norms import group_norms
from leanrnn.sparsify.course import Timetable
from leanrnn.sparsify.gradual import Gradual
from tests.sparsify.test_compact import HomeMade, Tied, discovered
from tests.support.handmade import language
from tests.support.training import OPTIMIZERS, batches, data_loss

STEPS = 40
COURSE = Course(warm_up=0.25, shrink=0.5, rounds=4)  # rounds begin with 10, 15, 20, 25 steps done, the last ends at 30


def wide():
    """A model that is large enough to land within a few percent, always the same."""
    model = language(width=24)[0]
    return model, discover(model, torch.zeros(4, 3, dtype=torch.long))


class Training:
    """A short training with everything in one place; ``model`` and ``groups`` may be of any kind."""

    def __init__(self, model, groups, make="sgd", budget=None, course=COURSE, steps=STEPS, attach=True):
        self.model, self.groups = model, groups
        self.optimizer = OPTIMIZERS[make](model.parameters())
        budget = Budget(mult_adds="40%") if budget is None else budget
        self.sparsifier = Sparsifier(groups, budget=budget, steps=steps, course=course)
        if attach:
            self.sparsifier.attach(self.optimizer)

    def run(self, data, loss=data_loss):
        for tokens in data:
            self.optimizer.zero_grad()
            loss(self.model, tokens).backward()
            self.optimizer.step()
        return self


@pytest.mark.parametrize("make", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("by", ["saliency", "norm"])
def test_it_lands_just_below_the_budget_and_says_how_far_it_is(make, by):
    model, groups = wide()
    training = Training(model, groups, make, course=Course(0.25, 0.5, 4, by))
    limit = 0.4 * groups.costs.mult_adds.at(groups.widths)
    training.run(batches(12))
    assert training.sparsifier.status().progress.phase == "shrink"
    training.run(batches(STEPS - 12, seed=2))
    cost, widths = groups.costs.mult_adds, groups.widths
    assert cost.at(widths) <= limit
    for name in widths:  # not one component more
        assert cost.at(widths | {name: widths[name] + 1}) > limit
    assert "over, mult_adds" in str(training.sparsifier.status())
    again = discover(model, groups.example)
    assert again.widths == groups.widths and again.costs.mult_adds.at(again.widths) <= limit
    training.sparsifier.detach()


def test_survivors_are_left_alone_and_the_chosen_fade_in_a_line():
    model, groups = wide()
    training = Training(model, groups)
    training.optimizer.param_groups[0]["lr"] = 0.0
    training.run(batches(10))
    before, gone = copy.deepcopy(model.state_dict()), training.sparsifier._way._fade.state_dict()
    assert sum(map(len, gone.values())) > 0
    training.run(batches(2))
    for layer in groups:
        for strip in layer.strips:
            if strip.reader and strip.role == "weight":
                mine = torch.from_numpy(strip.positions[np.isin(strip.components, gone.get(layer.name, []))])
                now = model.state_dict()[strip.tensor].index_select(strip.axis, mine)
                then = before[strip.tensor].index_select(strip.axis, mine)
                torch.testing.assert_close(now, then * 3 / 5)
    training.run(batches(3))
    kept = {name: np.setdiff1d(np.arange(24), gone.get(name, [])) for name in groups.names}
    fresh, full = wide()
    fresh.load_state_dict(before)
    small = leanrnn.shrink(fresh, full, keep=kept)
    for (name, now), then in zip(model.named_parameters(), small.parameters(), strict=True):
        assert torch.equal(now, then), name


def test_a_cut_changes_nothing_in_what_the_model_computes():
    model, groups = wide()
    training = Training(model, groups)
    tokens, seen = batches(1, seed=9)[0], []
    way = training.sparsifier._way
    due = way.due

    def watched(step):
        masks = due(step)
        if masks is not None:
            seen.append((model(tokens)[0].detach(), dict(groups.widths)))
        return masks

    way.due = watched

    def after(record):
        torch.testing.assert_close(model(tokens)[0], seen[-1][0], rtol=0, atol=1e-12)
        assert record.widths != seen[-1][1]

    training.sparsifier._after_compaction = after
    training.run(batches(STEPS))
    assert len(seen) >= 3


@pytest.mark.parametrize("mode", ["gradient", "proximal", "loss"])
def test_a_penalty_helps_on_the_way_and_finds_its_strength(mode):
    model, groups = wide()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    course = Course(0.25, 0.5, 8)
    limit = 0.4 * groups.costs.mult_adds.at(groups.widths)
    sparsifier = Sparsifier(
        groups, budget=Budget(mult_adds="40%"), steps=200, course=course, penalty="group_lasso", mode=mode
    ).attach(optimizer)
    strengths = []
    for tokens in batches(200):
        optimizer.zero_grad()
        loss = data_loss(model, tokens)
        (loss + sparsifier.loss() if mode == "loss" else loss).backward()
        optimizer.step()
        strengths.append(sparsifier.strength)
    assert groups.costs.mult_adds.at(groups.widths) <= limit
    assert not any(strengths[:49]) and all(strengths[50:149]) and not any(strengths[149:])
    changes = {round(b / a, 6) for a, b in itertools.pairwise(strengths[50:149])}
    assert changes <= {1.0, 1.5, round(1 / 1.5, 6)} and len(changes) > 1
    budget = Budget(mult_adds="99%")
    other = Sparsifier(groups, budget=budget, steps=200, course=course, penalty="group_lasso", mode=mode)
    other.load_state_dict(sparsifier.state_dict())
    assert other.state_dict() == sparsifier.state_dict()


@pytest.mark.parametrize("make", ["momentum", "adam"])
@pytest.mark.parametrize("stop", [5, 10, 12, 15, 29, 35])
def test_a_training_goes_on_to_the_same_bits(make, stop, tmp_path):
    whole = Training(*wide(), make).run(batches(STEPS))
    first = Training(*wide(), make).run(batches(STEPS)[:stop])
    path = tmp_path / "model.safetensors"
    leanrnn.save(first.model, path)
    state = copy.deepcopy((first.optimizer.state_dict(), first.sparsifier.state_dict(), first.groups.to_json()))
    model = leanrnn.load(path, lambda: wide()[0])
    second = Training(model, leanrnn.Groups.from_json(state[2], model), make)
    second.optimizer.load_state_dict(state[0])
    second.sparsifier.load_state_dict(state[1])
    second.run(batches(STEPS)[stop:])
    assert second.groups.widths == whole.groups.widths
    for (name, one), other in zip(whole.model.named_parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other), name


def test_a_state_of_another_course_is_refused():
    one = Training(*wide())
    state = one.sparsifier.state_dict()
    other = Training(*wide(), course=Course(rounds=3))
    with pytest.raises(GroupsError, match="course"):
        other.sparsifier.load_state_dict(state)
    with pytest.raises(GroupsError, match="other costs"):
        Training(*wide(), budget=Budget(weights="50%")).sparsifier.load_state_dict(state)
    with pytest.raises(GroupsError, match="penalty"):
        other.sparsifier.load_state_dict(Sparsifier(wide()[1], strength=1.0).state_dict())


def test_gradients_that_are_scaled_make_the_same_choice():
    plain = Training(*wide()).run(batches(STEPS))
    scaled = Training(*wide())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for tokens in batches(STEPS):
        scaled.optimizer.zero_grad()
        scaler.scale(data_loss(scaled.model, tokens)).backward()
        scaler.step(scaled.optimizer)
        scaler.update()
    assert scaled.groups.widths == plain.groups.widths


def test_accumulated_gradients_and_several_optimizers():
    one = Training(*wide())
    two = Training(*wide(), attach=False)
    parameters = list(two.model.parameters())
    optimizers = [torch.optim.SGD(parameters[::2], lr=0.1), torch.optim.SGD(parameters[1::2], lr=0.1)]
    two.sparsifier.attach(optimizers)
    for tokens in batches(STEPS):
        one.optimizer.zero_grad()
        for half in tokens.split(2, dim=1):
            (data_loss(one.model, half) * half.size(1) / tokens.size(1)).backward()
        one.optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()
        data_loss(two.model, tokens).backward()
        for optimizer in optimizers:
            optimizer.step()
    assert one.groups.widths == two.groups.widths
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", [Tied, HomeMade])
def test_tied_and_home_made_models(kind):
    model, groups = discovered(kind)
    training = Training(model, groups, budget=Budget(mult_adds="60%"))
    limit = 0.6 * groups.costs.mult_adds.at(groups.widths)
    training.run(batches(STEPS))
    assert groups.costs.mult_adds.at(groups.widths) <= limit
    data_loss(model, batches(1)[0]).backward()


def test_it_needs_to_know_how_long_and_how_small():
    groups = wide()[1]
    with pytest.raises(BudgetError, match="steps="):
        Sparsifier(groups, budget=Budget(mult_adds="50%"))
    with pytest.raises(GroupsError, match="nothing says"):
        Sparsifier(groups)
    with pytest.raises(GroupsError, match="lead to a budget"):
        Sparsifier(groups, strength=1.0, steps=5)
    with pytest.raises(GroupsError, match="two ways"):
        Sparsifier(groups, strength=1.0, budget=Budget(mult_adds="50%"), steps=5)
    with pytest.raises(BudgetError, match="not possible"):
        Sparsifier(groups, budget=Budget(mult_adds="0.1%"), steps=5)
    with pytest.raises(BudgetError, match="steps is 1"):
        Sparsifier(groups, budget=Budget(mult_adds="50%"), steps=1)


@pytest.mark.parametrize("wrong", [{"warm_up": 0.8, "shrink": 0.3}, {"rounds": 0}, {"by": "luck"}, {"shrink": 0.0}])
def test_courses_that_are_none(wrong):
    with pytest.raises(BudgetError):
        Course(**wrong)


def test_a_training_that_is_shorter_than_it_said_is_no_secret():
    model, groups = wide()
    training = Training(model, groups, steps=10 * STEPS).run(batches(STEPS))
    with pytest.warns(LeanRNNWarning, match="the budget is not met"):
        leanrnn.shrink(model, groups)
    with pytest.warns(LeanRNNWarning, match=f"steps={10 * STEPS} now"):
        training.sparsifier.detach()


def test_several_limits_floors_and_multiples_hold_together():
    model, groups = wide()
    budget = Budget(mult_adds="60%", weights="50%", floors=4, round_to=4)
    before = {name: groups.costs[name].at(groups.widths) for name in ("mult_adds", "weights")}
    Training(model, groups, budget=budget).run(batches(STEPS))
    assert all(width % 4 == 0 and width >= 4 for width in groups.widths.values())
    assert groups.costs.mult_adds.at(groups.widths) <= 0.6 * before["mult_adds"]
    assert groups.costs.weights.at(groups.widths) <= 0.5 * before["weights"]


class Clock:
    """Milliseconds that turn out to be a half more than was thought."""

    def __init__(self, cost):
        self.cost, self.factor = cost, 1.0

    def at(self, widths):
        return self.cost.at(widths) * self.factor

    def timed_at(self, widths):
        return float(self.at(widths))

    def correct(self, model, widths):
        self.factor = 1.5
        return float(self.at(widths))


def test_milliseconds_are_corrected_on_the_way():
    model, groups = wide()
    start = groups.costs.mult_adds.at(groups.widths)
    budget = Budget(milliseconds=0.6 * start, latency=Clock(groups.costs.mult_adds))
    training = Training(model, groups, budget=budget).run(batches(STEPS))
    assert 1.5 * groups.costs.mult_adds.at(groups.widths) <= 0.6 * start
    assert not training.sparsifier._way.unmet(STEPS)


def test_a_timetable_is_a_course_in_steps():
    table = Timetable.of(Course(0.2, 0.3, 3), 100)
    assert table.starts == (20, 30, 40, 50)
    assert [table.round_at(step) for step in (19, 20, 30, 50, 51)] == [None, 0, 1, 3, None]
    assert [table.left_after(number) for number in range(3)] == [pytest.approx((2 / 3) ** 3), pytest.approx(1 / 27), 0]
    assert table.reads(19) and table.reads(29) and not table.reads(50)
    long = Timetable.of(Course(0.2, 0.3, 3), 1000)  # rounds of 100 steps: every second step of the last 80 before one
    assert [step for step in range(1000) if long.reads(step)] == [
        step for end in (200, 300, 400) for step in range(end - 79, end, 2)
    ]
    assert sum(map(table.reads, range(100))) == 40
    assert table.longer(100).starts[-1] == 60 and table.longer(55) == table
    short = Timetable.of(Course(), 2)
    assert short.starts == (1, 2) and math.isclose(short.left_after(0), 0)


def test_choosing_is_what_the_scores_say():
    groups = wide()[1]
    way = Gradual(groups, Budget(widths=5), STEPS, Course(0.25, 0.5, 1, "norm"))
    norms = {name: values.detach() for name, values in group_norms(groups).items()}
    way.due(10)
    for name, values in norms.items():
        kept = values.argsort(descending=True)[:5]
        assert sorted(np.flatnonzero(way._fade.staying[name])) == sorted(kept.tolist())


def test_what_the_loss_does_not_feel_goes_first():
    model, groups = wide()
    with torch.no_grad():
        model.rnn.weight_ih_l1[:, :7] = 0
        model.rnn.weight_hh_l0[:, :7] = 0
    training = Training(model, groups, budget=Budget(widths={"rnn.l0": 17}), course=Course(0.25, 0.5, 1))
    training.optimizer.param_groups[0]["lr"] = 0.0
    training.run(batches(10))
    assert training.sparsifier._way._fade.state_dict()["rnn.l0"] == list(range(7))


def test_whoever_asked_is_told_of_every_cut():
    records = []
    model, groups = wide()
    training = Training(model, groups, attach=False)
    training.sparsifier.attach(training.optimizer, after=records.append)
    training.run(batches(STEPS))
    assert len(records) >= 3 and records[-1].widths == groups.widths
