"""Compaction while training: 20 further steps equal those of an uncompacted twin whose dead components stay zero."""

import io

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from leanrnn.discovery.discover import discover
from leanrnn.errors import GroupsError, LeanRNNWarning
from leanrnn.groups.groups import Groups
from leanrnn.penalties.group_lasso import GroupLasso
from leanrnn.sparsify.sparsifier import Sparsifier
from leanrnn.surgery.cut import cut_
from tests.support.handmade import kill_, language
from tests.support.training import OPTIMIZERS, batches
from tests.support.twins import DEAD, Run, expect_same, twins


@pytest.mark.parametrize("make", ["momentum", "adam"])
@pytest.mark.parametrize("settings", [{}, {"mode": "proximal"}, {"threshold": None}])
def test_training_goes_on_as_if_nothing_had_been_cut(make, settings):
    small, large = twins(language, make=OPTIMIZERS[make], **settings)
    before = small.model.rnn.weight_hh_l0
    record = small.sparsifier.compact()
    assert record and record.widths == small.groups.widths == {"rnn.l0": 4, "rnn.l1": 3}
    assert {name: gone.tolist() for name, gone in record.removed.items()} == DEAD
    assert small.model.rnn.weight_hh_l0 is not before and small.model.rnn.weight_hh_l0.shape == (16, 4)
    # Loss, output and the carried state of former widths are still alive here.
    assert small.loss.grad_fn is not None and small.state[0].shape[-1] == 6
    small.train(20, seed=2)
    large.train(20, seed=2)
    expect_same(small, large)
    assert not small.sparsifier.compact() or large.sparsifier.compact()


def test_the_gradients_of_a_step_under_way_are_cut_too():
    small, large = twins(language)
    for run in (small, large):
        tokens = batches(1, 7)[0]
        run.optimizer.zero_grad()
        run.model(tokens)[0].square().sum().backward()
    large.zero_held()
    small.sparsifier.compact()
    for run in (small, large):
        run.optimizer.step()
        run.zero_held()
    expect_same(small, large)


def test_weighted_layers_keep_their_pull():
    runs = twins(language, penalty=lambda groups: GroupLasso(groups, weights={"rnn.l0": 0.3, "rnn.l1": 2.0}))
    runs[0].sparsifier.compact()
    for run in runs:
        run.train(20, seed=2)
    expect_same(*runs)


def test_two_parameter_groups_and_a_scheduler():
    def build():
        model, groups = language()
        first = {"params": list(model.rnn.parameters()), "lr": 0.02}
        rest = {"params": [*model.head.parameters(), *model.embedding.parameters()], "weight_decay": 0.01}
        return Run(model, groups, parameters=[first, rest])

    small, large = build(), build()
    for run in (small, large):
        run.train(5)
        kill_(run.groups, DEAD)
        run.scheduler = torch.optim.lr_scheduler.ExponentialLR(run.optimizer, 0.5)
    large.hold(DEAD)
    small.sparsifier.compact()
    for run in (small, large):
        run.train(10, seed=2)
        run.scheduler.step()
        run.train(10, seed=3)
    assert [len(g["params"]) for g in small.optimizer.param_groups] == [8, 3]
    expect_same(small, large)


class Tied(nn.Module):
    """Embedding and head are one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(7, 6), nn.GRU(6, 6, 2), nn.Linear(6, 7)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, state=None):
        hidden, state = self.rnn(self.embedding(tokens), state)
        return self.head(hidden), state


class HomeMade(nn.Module):
    """A cell from raw products, with a state of the plainest kind."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.inner, self.head = nn.Embedding(7, 4), nn.Linear(4, 6), nn.Linear(6, 7)
        self.recurrent = nn.Parameter(torch.randn(6, 6) / 3)

    def forward(self, tokens, state=None):
        outputs = []
        for x in self.embedding(tokens):
            mixed = self.inner(x)
            state = torch.tanh(mixed if state is None else mixed + state @ self.recurrent)
            outputs.append(state)
        return self.head(torch.stack(outputs)), state


def discovered(cls) -> tuple[nn.Module, Groups]:
    torch.manual_seed(3)
    model = cls().double()
    return model, discover(model, torch.zeros(4, 3, dtype=torch.long))


def test_tied_weights_stay_tied():
    groups = discovered(Tied)[1]
    dead = {name: [1, 4] for name in groups.names}
    small, large = twins(lambda: discovered(Tied), dead)
    assert small.sparsifier.compact()
    assert small.model.head.weight is small.model.embedding.weight
    assert small.model.embedding.weight.shape == (7, 4)
    small.train(20, seed=2)
    large.train(20, seed=2)
    expect_same(small, large, dead)


def test_state_of_a_home_made_cell():
    name = discovered(HomeMade)[1].names[0]
    dead = {name: [0, 2]}
    small, large = twins(lambda: discovered(HomeMade), dead)
    small.sparsifier.compact()
    for steps in (5, 15):
        small.state = small.sparsifier.cut_state(small.state)
        assert small.state.shape[-1] == 4
        for run in (small, large):
            run.train(steps, seed=steps)
    expect_same(small, large, dead)


def test_optimizer_state_is_saved_and_loaded_in_between():
    small, large = twins(language, make=OPTIMIZERS["adam"])
    small.sparsifier.compact()
    small.train(5, seed=2)
    file = io.BytesIO()
    torch.save({"optimizer": small.optimizer.state_dict(), "sparsifier": small.sparsifier.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    small.sparsifier.detach()
    small.optimizer = OPTIMIZERS["adam"](small.model.parameters())
    small.optimizer.load_state_dict(saved["optimizer"])
    settings = {"strength": 0.01, "threshold": 1e-3}
    small.sparsifier = Sparsifier(small.groups, **settings).attach(small.optimizer)
    small.sparsifier.load_state_dict(saved["sparsifier"])
    small.train(15, seed=3)
    large.train(5, seed=2)
    large.train(15, seed=3)
    expect_same(small, large)
    with pytest.raises(GroupsError, match="widths"):
        Sparsifier(language()[1], **settings).load_state_dict(saved["sparsifier"])


def test_compaction_by_itself():
    model, groups = language()
    run, seen = Run(model, groups, strength=0.0, threshold=None), []
    assert not run.sparsifier.compact(every=3, after=seen.append)
    run.train(2)
    kill_(groups, DEAD)
    run.hold(DEAD)
    run.train(1)
    run.held = None
    assert groups.widths == {"rnn.l0": 4, "rnn.l1": 3} and [r.step for r in seen] == [3]
    assert str(seen[0]) == "step 3: rnn.l0 -2 = 4, rnn.l1 -3 = 3"
    run.train(3)
    assert len(seen) == 1
    run.sparsifier.compact(every=0)
    kill_(groups, {"rnn.l0": [0]})
    run.train(3)
    assert groups.widths["rnn.l0"] == 4


def test_one_component_stays_and_every_state_follows():
    run = Run(*language())
    run.train(3)
    kill_(run.groups, {name: list(range(6)) for name in DEAD})
    with pytest.warns(LeanRNNWarning, match="rnn.l0, rnn.l1: only one component is left"):
        run.sparsifier.compact()
    assert run.groups.widths == {"rnn.l0": 1, "rnn.l1": 1}
    for p in run.model.parameters():
        assert run.optimizer.state[p]["momentum_buffer"].shape == p.shape == p.grad.shape
    run.train(2)


def test_cutting_a_second_time_understands_states_of_every_former_width():
    run = Run(*discovered(HomeMade))
    name = run.groups.names[0]
    state = torch.arange(6.0).expand(2, 6)
    for dead in ([0, 5], [1]):
        kill_(run.groups, {name: dead})
        run.sparsifier.compact()
    nested = {"h": (state, [state[:, 1:5]]), "count": torch.tensor(3), "name": "x"}
    cut = run.sparsifier.cut_state(nested)
    assert cut["h"][0].tolist() == cut["h"][1][0].tolist() == [[1.0, 3.0, 4.0]] * 2
    assert cut["count"] == 3 and cut["name"] == "x"
    assert run.sparsifier.cut_state(cut, layer=name)["h"][0].shape == (2, 3)


def test_a_state_that_could_be_of_two_layers_has_to_be_named():
    run = Run(*language())
    kill_(run.groups, DEAD)
    run.sparsifier.compact()
    state = torch.arange(6.0).expand(1, 6)
    with pytest.raises(GroupsError, match="layer=name"):
        run.sparsifier.cut_state(state)
    assert run.sparsifier.cut_state(state, layer="rnn.l1").tolist() == [[0.0, 3.0, 4.0]]


def test_an_optimizer_whose_state_cannot_be_cut_is_refused_before_anything_changes():
    model, groups = language()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    sparsifier = Sparsifier(groups, strength=0.1, threshold=None).attach(optimizer)

    def closure():
        optimizer.zero_grad()
        loss = model(batches(1)[0])[0].square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    # LBFGS keeps everything with its first parameter, here one that no group has; give it to one that is.
    optimizer.state[model.rnn.weight_ih_l0] = optimizer.state.pop(model.embedding.weight)
    kill_(groups, DEAD)
    before = groups.widths
    with pytest.raises(GroupsError, match="LBFGS keeps"):
        sparsifier.compact()
    assert groups.widths == before and model.rnn.weight_ih_l0.shape == (24, 6)


def test_factored_state_is_cut_along_the_axes_it_has():
    run = Run(*language(), make=lambda p: torch.optim.Adafactor(p, lr=0.01))
    run.train(3)
    kill_(run.groups, DEAD)
    run.sparsifier.compact()
    state = run.optimizer.state[run.model.rnn.weight_ih_l1]
    assert state["row_var"].shape == (12, 1) and state["col_var"].shape == (1, 4)
    run.train(3)


def test_misuse_is_refused():
    model, groups = language()
    sparsifier = Sparsifier(groups, strength=0.1)
    with pytest.raises(GroupsError, match="attach"):
        sparsifier.compact()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    with pytest.raises(GroupsError, match="a copy has no tensor"):
        sparsifier.attach(optimizer, copies=[nn.Linear(2, 2)])
    with pytest.raises(GroupsError, match="every=-1"):
        sparsifier.attach(optimizer).compact(every=-1)


def test_the_comparison_can_fail():
    small, large = twins(language)
    small.sparsifier.compact()
    masks = small.groups.keep_mask({"rnn.l0": [0, 1, 2]})
    cut_(small.model, small.groups, masks, plain=False)
    small.groups.layers = small.groups.cut(masks)
    small.sparsifier.detach()
    small.optimizer = OPTIMIZERS["momentum"](small.model.parameters())
    small.average = AveragedModel(small.model)
    small.train(1, seed=2)
    large.train(1, seed=2)
    with pytest.raises(AssertionError):
        expect_same(small, large)
