"""What holds for every penalty that has a name: a new one in ``PENALTIES`` is tested here without another line, and so
is the one that CONTRIBUTING shows."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from leanrnn.penalties import PENALTIES, Penalty
from leanrnn.sparsify.sparsifier import Sparsifier
from tests.support.handmade import language
from tests.support.twins import expect_same, twins

EVERY = pytest.mark.parametrize("name", [*PENALTIES, "ridge"])


@pytest.fixture(autouse=True)
def ridge(monkeypatch):
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names = {}
    exec(next(block for block in blocks if "class Ridge" in block), names)
    monkeypatch.setitem(PENALTIES, "ridge", names["Ridge"])


def grads(model) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def weights(model) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def both(penalty: Penalty, amount) -> None:
    penalty.add_gradient_(amount)
    penalty.proximal_(amount)


@EVERY
def test_gradient_equals_autograd_of_the_value(name):
    model, groups = language()
    penalty = PENALTIES[name](groups)
    (3 * penalty.value()).backward()
    expected = grads(model)
    model.zero_grad()
    penalty.add_gradient_(1.0)
    penalty.add_gradient_(torch.tensor(2.0))
    assert grads(model).keys() == expected.keys() != set()
    for key, grad in grads(model).items():
        torch.testing.assert_close(grad, expected[key], rtol=0, atol=1e-10)


@EVERY
@pytest.mark.parametrize("step", [1e-3, 0.1, 1.0])
def test_proximal_step_brings_its_objective_down(name, step):
    model, groups = language()
    penalty, old = PENALTIES[name](groups), weights(model)
    before = step * float(penalty.value().detach())
    penalty.proximal_(step)
    moved = sum(float((new - old[key]).square().sum()) for key, new in weights(model).items())
    assert moved / 2 + step * float(penalty.value().detach()) < before


@EVERY
def test_proximal_step_agrees_with_the_gradient_to_first_order(name):
    model, groups = language()
    penalty, old, step = PENALTIES[name](groups), weights(model), 1e-6
    penalty.add_gradient_(1.0)
    penalty.proximal_(step)
    for key, grad in grads(model).items():
        torch.testing.assert_close((old[key] - weights(model)[key]) / step, grad, rtol=0, atol=1e-5)
    penalty.proximal_(0.0)
    assert all((old[key] - new).abs().max() < 2.1 * step for key, new in weights(model).items())


@EVERY
def test_frozen_parameters_and_those_outside_a_mapping_are_left_alone(name):
    model, groups = language()
    penalty, old = PENALTIES[name](groups), weights(model)
    model.rnn.weight_hh_l0.requires_grad_(False)
    both(penalty, {model.head.weight: 0.1, model.rnn.weight_hh_l0: 0.1})
    assert grads(model).keys() == {"head.weight"}
    assert [key for key, new in weights(model).items() if not torch.equal(new, old[key])] == ["head.weight"]
    penalty.value().backward()
    assert model.rnn.weight_hh_l0.grad is None


@EVERY
def test_training_goes_on_after_a_cut_and_after_a_stop(name):
    small, large = twins(language, penalty=name)
    assert small.sparsifier.compact()
    state = json.loads(json.dumps(small.sparsifier.state_dict()))
    small.sparsifier.detach()
    settings = {"strength": 0.01, "threshold": 1e-3, "penalty": name}
    small.sparsifier = Sparsifier(small.groups, **settings).attach(small.optimizer, copies=[small.average])
    small.sparsifier.load_state_dict(state)
    small.train(20, seed=2)
    large.train(20, seed=2)
    expect_same(small, large)


@EVERY
def test_runs_on_meta_where_nothing_can_be_read_back(name):
    _, groups = language()
    groups.bind(groups.model.to("meta"))
    penalty = PENALTIES[name](groups)
    assert penalty.value().is_meta
    penalty.value().backward()
    both(penalty, 1.0)
