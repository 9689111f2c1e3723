"""What all integrations do, in a loop that stands for a framework's: widths before weights, averages, logs, the end."""

import copy
import pickle

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

import leanrnn
from leanrnn.deploy.libraries import Extra
from leanrnn.errors import CheckpointError, GroupsError, IntegrationError, LeanRNNWarning
from leanrnn.integrations.attached import Attached, averages
from leanrnn.integrations.lightning_hooks import Hooks, forget_best
from tests.sparsify.test_gradual import COURSE, STEPS
from tests.support.handmade import kill_, language
from tests.support.training import OPTIMIZERS, batches, data_loss

EXAMPLE = torch.zeros(4, 3, dtype=torch.long)
BUDGET = {"budget": leanrnn.Budget(mult_adds="40%"), "course": COURSE}


class Holder:
    """A callback of some framework that keeps an average."""

    def __init__(self, model):
        self.average, self.name = AveragedModel(model), "average"


class Loop:
    """A framework: wraps a model in a module of its own, and calls back at the usual places."""

    def __init__(self, **options):
        self.module = torch.nn.Module()
        self.module.net = language(width=24)[0]
        self.holder = Holder(self.module)
        self.optimizer = OPTIMIZERS["adam"](self.module.parameters())
        self.logged = []
        self.attached = Attached(EXAMPLE, module="net", **(options or BUDGET))
        self.attached.watch(self.module, lambda: averages([self.holder], self.module), lambda: [self.optimizer])

    def begin(self):
        copies = averages([self.holder], self.module)
        self.attached.begin(self.module, [self.optimizer], steps=STEPS, copies=copies, log=self.logged.append)
        return self

    def run(self, data):
        for tokens in data:
            self.optimizer.zero_grad()
            data_loss(self.module.net, tokens).backward()
            self.optimizer.step()
            self.holder.average.update_parameters(self.module)
        return self

    def parts(self):
        return {
            "module": self.module,
            "average": self.holder.average,
            "optimizer": self.optimizer,
            "lean": self.attached,
        }


@pytest.mark.parametrize("begun", [False, True])  # what is loaded first: the framework's optimizers, or weights
@pytest.mark.parametrize("done", [17, 35])
def test_a_killed_training_goes_on_to_the_same_bits_with_its_average(done, begun):
    data = batches(STEPS)
    whole = Loop().begin().run(data)
    first = Loop().begin().run(data[:done])
    saved = copy.deepcopy({name: part.state_dict() for name, part in first.parts().items()})
    second = Loop().begin() if begun else Loop()
    for name in ("lean", "module", "average", "optimizer") if begun else saved:
        second.parts()[name].load_state_dict(saved[name])
    if not begun:
        second.begin()
    second.run(data[done:])
    assert second.attached.groups.widths == whole.attached.groups.widths
    for a, b in ((whole.module, second.module), (whole.holder.average, second.holder.average)):
        for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
            assert torch.equal(x, y), name


def test_log_is_told_of_the_first_step_and_of_every_cut_and_of_nothing_else():
    loop = Loop().begin().run(batches(STEPS))
    assert [int(values["step"]) for values in loop.logged] == [1, 15, 20, 25, 30]
    widths = [values["rnn.l0/width"] for values in loop.logged]
    assert widths == sorted(widths, reverse=True) and widths[-1] == loop.attached.groups["rnn.l0"].width
    assert loop.logged[0]["used/mult_adds"] == pytest.approx(2.5) and loop.logged[-1]["used/mult_adds"] <= 1
    assert loop.logged[-1].items() <= (loop.attached.sparsifier.status().as_dict() | {"step": 30}).items()
    loop.attached.end()
    assert loop.attached.sparsifier.optimizers == []


def test_a_strength_cuts_now_and_then_and_at_the_end():
    loop = Loop(strength=1e-9).begin()
    loop.optimizer.param_groups[0]["lr"] = 0.0  # or what is dead would come to life again
    kill_(loop.attached.groups, {"rnn.l0": [1, 2]})
    loop.run(batches(3))
    assert [values["rnn.l0/width"] for values in loop.logged] == [24, 22]
    kill_(loop.attached.groups, {"rnn.l1": [5]})
    loop.attached.end()
    assert loop.attached.groups.widths == {"rnn.l0": 22, "rnn.l1": 23}


def test_end_warns_if_nothing_was_removed_or_the_budget_is_not_met():
    loop = Loop(strength=1e-9).begin().run(batches(3))
    with pytest.warns(LeanRNNWarning, match="nothing was removed in 3 steps"):
        loop.attached.end()
    loop.attached.end()  # once is enough
    loop = Loop().begin().run(batches(3))
    with pytest.warns(LeanRNNWarning, match="budget is not met"):
        loop.attached.end()
    loop = Loop().begin().run(batches(3))
    loop.attached.leave()  # a training that broke off says nothing
    assert loop.begin().attached.sparsifier.steps == 0


def test_mistakes_are_told():
    with pytest.raises(GroupsError, match="budgets: neither leanrnn"):
        Attached(EXAMPLE, budgets=1)
    module = Loop().module
    for attached, message in (
        (Attached(EXAMPLE, module="body", **BUDGET), "no module 'body' in Module. Name one of its own: net"),
        (Attached(module="net", **BUDGET), "an example is missing"),
        (Attached(EXAMPLE, module="net", **BUDGET), "how long the training is. Give steps="),
    ):
        with pytest.raises(IntegrationError, match=message):
            attached.begin(module, [torch.optim.SGD(module.parameters())], steps=float("inf"))
    small = Loop().begin().run(batches(STEPS))
    waiting = Loop().begin()
    waiting.attached.load_state_dict(small.attached.state_dict())
    with pytest.raises(GroupsError, match="the state is of widths"):
        waiting.attached.end()
    with pytest.raises(CheckpointError, match="Load it into a new model of full width"):
        small.module.load_state_dict(module.state_dict())


def test_what_is_missing_is_named_with_its_extra():
    extra = Extra("lightning", ("no_such_framework",), IntegrationError)
    with pytest.raises(IntegrationError, match=r"pip install leanrnn\[lightning\]"):
        extra.check()


def test_a_callback_is_copied_as_it_was_made():
    hooks = Hooks(EXAMPLE, module="net", **BUDGET)
    hooks.attached.watch(torch.nn.Module())
    again = pickle.loads(pickle.dumps(copy.deepcopy(hooks)))
    assert again.attached.sparsifier is None and again.attached.module == "net"
    assert torch.equal(again.attached.example, EXAMPLE)
    module = Loop().module
    pickle.loads(pickle.dumps(copy.deepcopy(module))).load_state_dict(module.state_dict())


def test_the_best_so_far_is_forgotten():
    class Checkpoint:
        monitor, best_k_models, best_model_score, best_model_path, kth_best_model_path = "loss", {"a": 1}, 1, "a", "a"

    class Stopping:
        best_score, wait_count, mode = torch.tensor(1.0), 3, "max"

    checkpoint, stopping, latest = Checkpoint(), Stopping(), Checkpoint()
    latest.monitor = None  # it keeps the last one, and removes the one before
    latest.best_k_models = {}
    forget_best([checkpoint, stopping, latest, object()])
    assert latest.best_model_path == "a"
    assert (checkpoint.best_k_models, checkpoint.best_model_path) == ({}, "")
    assert stopping.best_score == -float("inf") and stopping.wait_count == 0
