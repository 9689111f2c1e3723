"""A model of full width takes the checkpoint of one that was cut, and training goes on to the same bits."""

import copy
import io

import numpy as np
import pytest
import torch
from torch import nn

import leanrnn
from leanrnn import discover, resumable
from leanrnn.errors import CheckpointError
from leanrnn.sparsify.resume import _regular
from tests.sparsify.test_compact import HomeMade, Tied
from tests.sparsify.test_gradual import STEPS, Training, wide
from tests.support.training import batches
from tests.support.twins import Run


def stored(thing):
    """Written and read again, as a framework does it."""
    file = io.BytesIO()
    torch.save(thing, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


@pytest.mark.parametrize("make", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("done", [12, 17, 35])  # before the first cut, in the middle of a fade, after the last cut
def test_training_to_a_budget_goes_on_to_the_same_bits(make, done):
    data, parts = batches(STEPS), ("model", "optimizer", "sparsifier")
    whole, first, second = (Training(*wide(), make) for _ in range(3))
    whole.run(data)
    first.run(data[:done])
    saved = stored({part: getattr(first, part).state_dict() for part in parts})
    resumable(second.model, second.groups)
    for part in parts:
        getattr(second, part).load_state_dict(saved[part])
    assert second.groups.widths == first.groups.widths
    second.run(data[done:])
    assert whole.groups.widths == second.groups.widths
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_copies_of_the_sparsifier_are_cut_along():
    def start():
        model, groups = wide()
        return Run(model, groups, budget=leanrnn.Budget(mult_adds="40%"), steps=20)

    whole, first, second = start(), start(), start()
    whole.train(15)
    first.train(15)
    saved = stored({"model": first.model.state_dict(), "average": first.average.state_dict()})
    resumable(second.model, second.groups)
    second.model.load_state_dict(saved["model"])
    second.average.load_state_dict(saved["average"])
    assert second.groups.widths == first.groups.widths != wide()[1].widths
    for a, b in zip(first.average.parameters(), second.average.parameters(), strict=True):
        assert torch.equal(a, b)


def shapes():
    """Models whose axes hold several layers, one several times, tied or repeated, with what they are called with."""
    dense = nn.ModuleDict({"rnn": nn.GRU(3, 6, 2, bidirectional=True), "out": nn.Linear(12, 2)})

    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = copy.deepcopy(dense)

        def forward(self, x):
            return self.parts["out"](self.parts["rnn"](x)[0])

    return [(Dense(), torch.randn(5, 2, 3)), (Tied(), torch.zeros(4, 3, dtype=torch.long)), (HomeMade(), None)]


@pytest.mark.parametrize("number", range(3))
def test_without_a_sparsifier_the_model_computes_what_the_saved_one_does(number):
    model, example = shapes()[number]
    example = torch.randn(4, 2, 3) if example is None and not hasattr(model, "embedding") else example
    example = torch.zeros(4, 3, dtype=torch.long) if example is None else example
    fresh = copy.deepcopy(model)
    groups = discover(model, example)
    keep = {layer.name: np.arange(layer.width)[1 : layer.width - number] for layer in groups}
    small = leanrnn.shrink(model, groups, keep=keep)
    optimizer = torch.optim.Adam(fresh.parameters())
    again = discover(fresh, example)
    resumable(fresh, again, optimizer)
    fresh.load_state_dict(stored(small.state_dict()))
    assert again.widths == {name: len(kept) for name, kept in keep.items()}
    assert {id(p) for p in fresh.parameters()} == {id(p) for p in optimizer.param_groups[0]["params"]}
    with torch.no_grad():  # for training the two may take other steps, equal but for rounding
        for a, b in zip(leaves(fresh(example)), leaves(small(example)), strict=True):
            assert torch.equal(a, b)


def leaves(result):
    return [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def test_inside_another_module_and_once_more():
    model, groups = wide()
    small = leanrnn.shrink(model, groups, keep_widths=dict.fromkeys(groups.names, 7))
    handle = resumable(model, groups)
    nn.ModuleDict({"inner": model}).load_state_dict({f"inner.{k}": v for k, v in small.state_dict().items()})
    assert set(groups.widths.values()) == {7}
    model.load_state_dict(small.state_dict())
    handle.remove()


def test_what_does_not_fit_is_told():
    model, groups = wide()
    small = leanrnn.shrink(model, groups, keep_widths=dict.fromkeys(groups.names, 7))
    state, whole = small.state_dict(), model.state_dict()
    cut = copy.deepcopy(small)
    resumable(cut, discover(cut, torch.zeros(4, 3, dtype=torch.long)))
    with pytest.raises(
        CheckpointError, match=r"24 components in layer 'rnn.l0', the model 7\. Load it into a new model"
    ):
        cut.load_state_dict(whole)
    resumable(model, groups)
    name = next(name for name in state if "weight_hh" in name)
    with pytest.raises(CheckpointError, match=f"{name}' with shape .* no widths of this model give it that shape"):
        model.load_state_dict(state | {name: state[name][:-1]})
    with pytest.raises(CheckpointError, match="another number of axes"):
        model.load_state_dict(state | {name: state[name].flatten()})
    assert set(groups.widths.values()) == {24}


def test_a_part_of_a_checkpoint_that_leaves_the_widths_open_is_refused():
    model, example = shapes()[0]
    groups = discover(model, example)
    resumable(model, groups)
    with pytest.raises(CheckpointError, match="leaves open which layers were cut"):
        model.load_state_dict({"parts.out.weight": torch.zeros(2, 10)}, strict=False)
    assert set(groups.widths.values()) == {6}


def test_components_that_stand_in_any_order_are_not_guessed():
    assert _regular(np.array([0, 1, 2, 0, 1, 2]), 3) and _regular(np.array([0, 0, 1, 1]), 2)
    assert not _regular(np.array([0, 2, 1]), 3) and not _regular(np.array([0, 1]), 3)
