"""Modules of every kind follow a cut: what they know of their widths, and what they take and give."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from leanrnn import layers
from leanrnn.errors import ShrinkError
from leanrnn.groups.groups import Groups, Layer
from leanrnn.running.copies import copy_model
from leanrnn.surgery.cut import cut_
from tests.support.cutting import KEEP, Mixed, assert_exact, mixed_groups
from tests.support.stacks import BATCH, INPUTS, STEPS, random_masks, strip, tagger


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
def test_modules_of_every_kind_follow(cell, training):
    model = Mixed(cell).double().train(training)
    model.batch.running_mean.normal_(), model.batch.running_var.uniform_(1, 2)
    groups, x = mixed_groups(model), torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    _, small = assert_exact(model, groups, groups.keep_mask({"width": KEEP}), x)
    assert (small.depth.groups, small.depth.in_channels, small.depth.out_channels) == (4, 4, 8)
    assert (small.conv.in_channels, small.conv.out_channels, small.batch.num_features) == (8, 5, 4)
    assert (small.both.in1_features, small.norm.normalized_shape, small.norm.full_width) == (4, (4,), 6)
    assert type(small.cell) is getattr(nn, cell) and small.cell.hidden_size == 4
    assert (small.groups.num_channels, small.groups.counts, small.groups.full_count) == (4, [2, 2], 3)
    assert len(small.scale) == 2 and small.scale[1].shape == (4, 4)
    again = Groups(groups.cut(groups.keep_mask({"width": KEEP})))
    _, tiny = assert_exact(small, again, again.keep_mask({"width": [0, 1]}), x)
    assert tiny.norm.full_width == 6 and tiny.groups.counts == [2]


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_accept_the_old_state_while_training(cell):
    model = Mixed(cell).double()
    groups, x = mixed_groups(model), torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    cut_(model, groups, groups.keep_mask({"width": KEEP}), plain=False)
    wide = torch.randn(BATCH, 6, dtype=torch.float64)
    narrow = wide[:, KEEP]
    states = [(s, s) if cell == "LSTMCell" else s for s in (wide, narrow)]
    assert torch.equal(model(x, states[0])[0], model(x, states[1])[0])


def test_weight_normalised_stack():
    model, groups, x = tagger()
    weight_norm(model.rnn, "weight_hh_l0")
    model(x)  # leaves computed weights in torch's module
    named = {"rnn.weight_hh_l0": "rnn.parametrizations.weight_hh_l0.original1"}
    strips = []
    for s in groups["rnn._l0"].strips:
        tensor = named.get(s.tensor, s.tensor)
        # Rows of the direction under a norm are never zeroed (0/0); the norms themselves are.
        role = "carried" if tensor != s.tensor and s.axis == 0 else s.role
        strips.append(type(s)(tensor, s.axis, s.shape, s.positions, s.components, role, s.reader))
    strips.append(strip(model, "rnn.parametrizations.weight_hh_l0.original0", 0, 6, "weight"))
    groups = Groups([Layer("rnn._l0", 6, tuple(strips)), groups["rnn._l1"]])
    masks = random_masks(groups)
    with torch.no_grad():
        _, small = assert_exact(copy_model(model), groups, masks, x)
    assert small.rnn.hidden_size == (2, 3) and small.rnn.former[0][0][6] == np.flatnonzero(masks["rnn._l0"]).tolist()
    torch.nn.utils.parametrize.remove_parametrizations(small.rnn, "weight_hh_l0")
    assert type(small.rnn) is layers.LSTM and small(x)[0].shape == (STEPS, BATCH, 4)


class Delegating(nn.LSTM):
    def forward(self, x, hx=None):
        output, state = super().forward(x, hx)
        return 2 * output, state


class Direct(nn.LSTM):
    def forward(self, x, hx=None):
        zeros = x.new_zeros(self.num_layers, x.size(1), self.hidden_size)
        out = torch.lstm(x, (zeros, zeros), self._flat_weights, True, self.num_layers, 0.0, False, False, False)
        return out[0], out[1:]


def subclassed(cls):
    model, groups, x = tagger()
    model.rnn = cls(INPUTS, 6, 2).double()
    return model, groups, x


def test_subclass_that_calls_super_may_have_unequal_widths():
    model, groups, x = subclassed(Delegating)
    _, small = assert_exact(model, groups, random_masks(groups), x)
    assert isinstance(small.rnn, Delegating) and isinstance(small.rnn, layers.Recurrent)
    model, groups, x = subclassed(Delegating)
    _, small = assert_exact(model, groups, groups.keep_mask(dict.fromkeys(groups.names, KEEP)), x)
    assert type(small.rnn) is Delegating


def test_subclass_with_its_own_operator_needs_equal_widths():
    model, groups, x = subclassed(Direct)
    masks = groups.keep_mask(dict.fromkeys(groups.names, KEEP))
    for plain in (True, False):
        _, small = assert_exact(model, groups, masks, x, plain)
        assert type(small.rnn) is Direct and small.rnn.hidden_size == 4
    with pytest.raises(ShrinkError, match=r"Direct.*super\(\)\.forward"):
        cut_(model, groups, random_masks(groups))
