"""Strength over time: schedules, and a controller that looks at what compaction has left."""

import json

import pytest
import torch

from leanrnn import Penalty, Strength
from leanrnn.errors import GroupsError
from leanrnn.sparsify.sparsifier import Sparsifier
from leanrnn.sparsify.strength import as_strength, constant, linear_ramp, off_from
from tests.support.handmade import kill_, language
from tests.support.training import OPTIMIZERS, batches, data_loss, hooked
from tests.support.twins import DEAD

# Written by the first format, after a compaction.
FIRST_FORMAT = """{"format": 1, "steps": 3, "strength": 0.05, "mode": "gradient", "penalty": "GroupLasso",
"sizes": {"rnn.l0": [96, 96, 96, 96], "rnn.l1": [79, 79, 79]}, "threshold":
[{"kind": "element", "tau": 0.02, "biases": "needed", "parameters": null}], "every": 5,
"widths": {"rnn.l0": 4, "rnn.l1": 3}}"""


class Widths(Strength):
    """Raises the strength until no more than ``target`` components are left, and then ends the penalty."""

    def __init__(self, target):
        self.target, self.strength = target, 0.01

    def at(self, step, groups):
        return self.strength

    def compacted(self, step, groups):
        self.strength = 0.0 if sum(groups.widths.values()) <= self.target else 1.2 * self.strength

    def state_dict(self):
        return {"strength": self.strength}

    def load_state_dict(self, state):
        self.strength = state["strength"]


def start(strength):
    """A model, its sparsifier, which compacts every five steps, and its optimizer."""
    model, groups = language()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    sparsifier = Sparsifier(groups, strength=strength, threshold=1e-3, mode="proximal").attach(optimizer)
    sparsifier.compact(every=5)
    return model, sparsifier, optimizer


def train(model, optimizer, data):
    for tokens in data:
        optimizer.zero_grad()
        data_loss(model, tokens).backward()
        optimizer.step()


@pytest.mark.filterwarnings("ignore:.*only one component is left")
@pytest.mark.parametrize("wrapped", [lambda strength: strength, lambda strength: off_from(strength, 150, left=0.5)])
def test_a_controller_meets_its_target_and_goes_on_to_the_same_bits(wrapped):
    data = batches(200)
    model, sparsifier, optimizer = start(wrapped(Widths(8)))
    strengths, sizes = [sparsifier.strength], [12]
    for i in range(0, 200, 5):
        train(model, optimizer, data[i : i + 5])
        strengths.append(sparsifier.strength)
        sizes.append(sum(sparsifier.groups.widths.values()))
    reached = strengths.index(0.0)
    assert strengths[:reached] == [pytest.approx(0.012 * 1.2**i) for i in range(reached)]
    assert sizes[reached - 1] > 8 >= sizes[reached] == sizes[-1] > 2 and not any(strengths[reached:])

    for stop in (12, 5 * reached - 3):
        part, saving, optimizer = start(wrapped(Widths(8)))
        train(part, optimizer, data[:stop])
        state = json.loads(json.dumps(saving.state_dict()))
        saving.detach()
        again = Sparsifier(saving.groups, strength=wrapped(Widths(8)), threshold=1e-3, mode="proximal")
        again.attach(optimizer).load_state_dict(state)
        assert again.strength == saving.strength == strengths[stop // 5]
        train(part, optimizer, data[stop:])
        assert again.state_dict() == sparsifier.state_dict() and again.strength == 0.0
        for p, q in zip(part.parameters(), model.parameters(), strict=True):
            assert torch.equal(p, q)


def test_a_controller_hears_of_every_compaction_and_of_no_step():
    seen = []

    class Counting(Widths):
        def compacted(self, step, groups):
            seen.append((step, groups.widths))

    model, sparsifier, optimizer = start(Counting(0))
    train(model, optimizer, batches(11))
    sparsifier.compact()
    assert [step for step, _ in seen] == [0, 5, 10, 11]
    assert seen[-1][1] == sparsifier.groups.widths


def test_a_strength_of_another_kind_starts_afresh():
    _, sparsifier, _ = start(0.1)
    _, other, _ = start(Widths(8))
    other.load_state_dict(sparsifier.state_dict())
    assert other.strength == 1.2 * 0.01  # after the compaction of its own start
    sparsifier.load_state_dict(other.state_dict())
    assert sparsifier.strength == 0.1


def test_a_state_of_the_first_format_is_read():
    _, sparsifier = hooked(OPTIMIZERS["sgd"], steps=0, strength=linear_ramp(1.0, 10))
    kill_(sparsifier.groups, DEAD)
    sparsifier.compact()
    sparsifier.load_state_dict(json.loads(FIRST_FORMAT))
    assert sparsifier.steps == 3 and sparsifier.strength == 0.3 and sparsifier.state_dict()["every"] == 5
    for key, value in {"widths": {"rnn.l0": 3}, "mode": "loss", "penalty": "L1"}.items():
        with pytest.raises(GroupsError, match="the state is of"):
            sparsifier.load_state_dict(json.loads(FIRST_FORMAT) | {key: value})


class Counted(Penalty):
    """A penalty that keeps a number per component and one for all: it counts compactions."""

    def __init__(self, groups):
        self.ages, self.cuts = {name: [0] * width for name, width in groups.widths.items()}, 0
        self.groups = groups

    def value(self):
        return self.groups.model.head.weight.square().sum() / 2

    def add_gradient_(self, strength): ...

    def proximal_(self, step): ...

    def cut_(self, masks):
        self.cuts += 1
        self.ages = {
            n: [age + 1 for age, stays in zip(a, masks[n], strict=True) if stays] for n, a in self.ages.items()
        }

    def state_dict(self):
        return {"ages": self.ages, "cuts": self.cuts}

    def load_state_dict(self, state):
        self.ages, self.cuts = state["ages"], state["cuts"]


def test_a_penalty_keeps_its_own_state():
    model, groups = language()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    sparsifier = Sparsifier(groups, strength=0.1, penalty=Counted(groups)).attach(optimizer)
    kill_(groups, {"rnn.l1": [2]})
    assert sparsifier.compact() and groups.widths == {"rnn.l0": 6, "rnn.l1": 5}
    other = Counted(groups)
    again = Sparsifier(groups, strength=0.1, penalty=other)
    again.load_state_dict(json.loads(json.dumps(sparsifier.state_dict())))
    assert other.cuts == 1 and other.ages == {"rnn.l0": [1] * 6, "rnn.l1": [1] * 5}


def test_a_penalty_has_to_be_one():
    with pytest.raises(GroupsError, match=r"derive one from leanrnn\.Penalty"):
        Sparsifier(language()[1], strength=0.1, penalty=lambda: 0.0)


def test_schedules():
    ramp = linear_ramp(4.0, 8)
    assert [ramp(step) for step in (0, 2, 8, 100)] == [0.0, 1.0, 4.0, 4.0]
    assert constant(2.0)(7) == as_strength(2.0)(7) == 2.0
    ending = off_from(ramp, 4)
    assert [ending(step) for step in (2, 3, 4, 9)] == [1.0, 1.5, 0.0, 0.0]
    assert [off_from(ramp, 4, left=0.5)(step) for step in (3, 4, 8)] == [1.5, 1.0, 2.0]
    assert off_from(3.0, 1)(0) == 3.0 and as_strength(ramp) is ramp
    weaker = off_from(Widths(8), 4, left=0.5)
    assert [weaker.at(step, language()[1]) for step in (3, 4)] == [0.01, 0.005]
    assert [off_from(lambda step: step / 2, 4).at(step, language()[1]) for step in (3, 4)] == [1.5, 0.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: constant(-1.0),
        lambda: linear_ramp(1.0, 0),
        lambda: off_from(float("nan"), 2),
        lambda: off_from(1.0, 2, left=-1.0),
    ],
)
def test_impossible_schedules_are_refused(make):
    with pytest.raises(GroupsError):
        make()
