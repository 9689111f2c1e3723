"""Cutting tensors in place: every name, every module, every attribute follows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from leanrnn import layers
from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups, Layer
from leanrnn.running.compare import difference, run
from leanrnn.surgery.cut import cut_
from tests.support.cutting import KEEP, Tied, assert_exact, cut_pair
from tests.support.stacks import BATCH, random_masks, strip, tagger


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"bias": False}, {"layers": 3, "dropout": 0.5}])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_unequal_widths(kind, options, training):
    model, groups, x = tagger(kind, **options)
    model.train(training)
    masks = random_masks(groups)
    _, small = assert_exact(model, groups, masks, x)
    assert isinstance(small.rnn, layers.Recurrent) and isinstance(small.rnn, getattr(nn, kind))
    assert small.rnn.hidden_size == tuple(int(m.sum()) for m in masks.values())
    assert small.head.in_features == small.head.weight.size(1) and list(small.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize("plain", [True, False])
def test_equal_widths_stay_plain_unless_states_are_carried(plain):
    model, groups, x = tagger()
    masks = groups.keep_mask(dict.fromkeys(groups.names, KEEP))
    _, small = assert_exact(model, groups, masks, x, plain)
    assert type(small.rnn) is (nn.LSTM if plain else layers.LSTM) and small.rnn.hidden_size == 4
    wide = torch.randn(2, BATCH, 6, dtype=torch.float64)
    if not plain:
        narrow = wide[..., KEEP]
        assert torch.equal(small(x, (wide, wide))[0], small(x, (narrow, narrow))[0])
    cut_(small, Groups(groups.cut(masks)), {name: np.ones(4, bool) for name in groups.names})
    assert type(small.rnn) is nn.LSTM, "a later cut that may be plain brings torch's module back"


def test_replaced_parameters_and_gradients():
    model, groups, x = tagger()
    masks = random_masks(groups)
    model(x)[0].sum().backward()
    before = dict(model.named_parameters())
    replaced = {id(r.new): r for r in cut_(model, groups, masks)}
    for name, parameter in model.named_parameters():
        if id(parameter) not in replaced:
            assert parameter is before[name]
            continue
        r = replaced[id(parameter)]
        assert r.old is before[name] and type(parameter) is nn.Parameter and parameter.requires_grad
        data, grad = r.old.detach(), r.old.grad
        for axis, kept in r.kept.items():
            data, grad = data.index_select(axis, torch.tensor(kept)), grad.index_select(axis, torch.tensor(kept))
        assert torch.equal(parameter, data) and torch.equal(parameter.grad, grad)
    assert len(replaced) == 9


def test_training_goes_on_with_the_old_graph_alive():
    model, groups, x = tagger(dropout=0.1)
    out, state = model(x)
    loss = out.sum()
    cut_(model, groups, random_masks(groups), plain=False)
    loss.backward()
    detached = tuple(s.detach() for s in state)
    model(x, detached)[0].sum().backward()
    assert all(p.grad.shape == p.shape for p in model.parameters())


def test_gradients_equal_those_of_the_zeroed_model():
    model, groups, x = tagger(bidirectional=True)
    masks = random_masks(groups)
    zeroed, small = cut_pair(model, groups, masks)
    for m in (zeroed, small):
        m(x)[0].square().sum().backward()
    positions = groups.kept_positions(masks)
    for name, parameter in small.named_parameters():
        expected = zeroed.get_parameter(name).grad
        for axis in range(parameter.dim()):
            if (name, axis) in positions:
                expected = expected.index_select(axis, torch.tensor(positions[name, axis]))
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-12, atol=1e-12)


def test_shared_modules_and_tied_weights_stay_shared():
    model = Tied().double()
    _, groups, x = tagger()
    _, small = assert_exact(model, groups, random_masks(groups), x)
    assert small.rnn is small.twin and isinstance(small.rnn, layers.Recurrent)
    assert small.again.weight is small.head.weight is small.kept["all"][0]
    assert small.again.in_features == small.head.in_features == 3
    assert len(list(small.parameters())) == len(list(model.parameters()))


def test_tied_names_that_disagree_are_refused():
    model = Tied()
    strips = [strip(model, "head.weight", 1, 6, "weight"), strip(model, "again.weight", 1, 6, "weight")]
    groups = Groups([Layer("a", 6, (strips[0],)), Layer("b", 6, (strips[1],))])
    with pytest.raises(GroupsError, match="tied"):
        cut_(model, groups, groups.keep_mask({"a": [0], "b": [1]}))


class Marked(nn.Parameter):
    """A parameter subclass, as some libraries use to mark weights."""


def test_parameter_subclass_dtype_and_flags_survive():
    model, groups, _ = tagger()
    model.head.weight = Marked(model.head.weight.detach().bfloat16(), requires_grad=False)
    model.head.weight.mark = "no decay"
    cut_(model, groups, random_masks(groups))
    weight = model.head.weight
    assert type(weight) is Marked and weight.mark == "no decay"
    assert weight.dtype == torch.bfloat16 and not weight.requires_grad


def test_meta_device():
    model, groups, _ = tagger()
    model.to("meta")
    cut_(model, groups, random_masks(groups))
    assert model.rnn.hidden_size == (2, 3) and model.head.weight.device.type == "meta"


def test_misuse_is_refused():
    model, groups, _ = tagger()
    masks = random_masks(groups)
    with pytest.raises(GroupsError, match="at least one"):
        cut_(model, groups, {**masks, "rnn._l0": np.zeros(6, bool)})
    cut_(model, groups, masks)
    with pytest.raises(GroupsError, match="shape"):
        cut_(model, groups, masks)
    with pytest.raises(GroupsError, match="None in the model"):
        cut_(nn.Linear(2, 2), groups, masks)


@pytest.mark.parametrize("tensor", ["rnn.weight_hh_l1", "head.weight"])
def test_a_wrong_slice_is_noticed(tensor):
    model, groups, x = tagger()
    layer = groups["rnn._l1"]
    wrong = [
        replace(s, components=np.roll(s.components, 1)) if (s.tensor, s.axis) == (tensor, 1) else s
        for s in layer.strips
    ]
    masks = groups.keep_mask({"rnn._l1": KEEP})
    _, small = cut_pair(model, Groups([groups["rnn._l0"], replace(layer, strips=tuple(wrong))]), masks)
    right, _ = cut_pair(model, groups, masks)
    assert difference(run(right, x), run(small, x)) > 1e-3
