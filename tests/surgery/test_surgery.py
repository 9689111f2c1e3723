"""Cutting tensors in place: every name, every module, every attribute follows."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from leanrnn import layers
from leanrnn.errors import GroupsError, ShrinkError
from leanrnn.groups.groups import Groups, Layer
from leanrnn.running.compare import difference, run
from leanrnn.running.copies import copy_model
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.zeroing import zero_
from tests.support.stacks import BATCH, INPUTS, STEPS, Tagger, random_masks, strip, tagger


def cut_pair(model, groups, masks, plain=True):
    """The zeroed and the cut copy."""
    zeroed, small = copy.deepcopy(model), copy.deepcopy(model)
    zero_(zeroed, groups, masks)
    cut_(small, groups, masks, plain)
    return zeroed, small


def assert_exact(model, groups, masks, example, plain=True):
    zeroed, small = cut_pair(model, groups, masks, plain)
    assert difference(run(zeroed, example), run(small, example)) < 1e-12
    return zeroed, small


def one_layer(strips, width=6, name="width", **options) -> Groups:
    return Groups([Layer(name, width, tuple(strips), **options)])


KEEP = [0, 2, 3, 5]


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


class Tied(Tagger):
    """One stack under two names, a head whose weight also stands in a list and in a second module."""

    def __init__(self):
        super().__init__()
        self.twin = self.rnn
        self.again = nn.Linear(6, 4)
        self.again.weight = self.head.weight
        self.kept = {"all": [self.head.weight, (self.head.bias,)]}

    def forward(self, x):
        hidden, _ = self.twin(x)
        return self.head(hidden) + self.again(hidden) + hidden @ self.kept["all"][0].t()


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


class Mixed(nn.Module):
    """Hidden units of a cell that pass through nearly every kind of module with a width."""

    def __init__(self, cell="LSTMCell"):
        super().__init__()
        self.cell = getattr(nn, cell)(INPUTS, 6)
        self.batch = nn.BatchNorm1d(6)
        self.norm, self.rms, self.groups = nn.LayerNorm(6), nn.RMSNorm(6), nn.GroupNorm(2, 6)
        self.scale = nn.ParameterList([nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6, 4))])
        self.depth = nn.Conv1d(6, 12, 3, padding=1, groups=6)
        self.conv = nn.ConvTranspose1d(12, 5, 3, padding=1)
        self.both = nn.Bilinear(6, 6, 3)

    def forward(self, x, state=None):
        hidden = []
        for step in x:
            state = self.cell(step, state)
            hidden.append(state[0] if isinstance(state, tuple) else state)
        h = torch.stack(hidden, -1)
        wide = self.conv(self.depth(self.batch(h)))
        flat = h[..., -1] * self.scale[0]
        return wide, flat @ self.scale[1], self.both(flat, flat), self.normed(h.transpose(1, 2))

    def normed(self, h):
        groups = self.groups(h.transpose(1, 2)).transpose(1, 2)
        return (self.norm(h) + self.rms(h) + groups) @ self.scale[1]


def mixed_groups(model) -> Groups:
    strips = [strip(model, f"cell.weight_{p}", 0, 6, "weight") for p in ("ih", "hh")]
    strips += [strip(model, f"cell.bias_{p}", 0, 6, "bias") for p in ("ih", "hh")]
    strips += [strip(model, name, 0, 6, "carried") for name in ("batch.running_mean", "batch.running_var")]
    vectors = [f"{n}.{p}" for n in ("batch", "norm", "groups") for p in ("weight", "bias")]
    strips += [strip(model, name, 0, 6, "bias") for name in [*vectors, "rms.weight", "scale.0"]]
    strips += [strip(model, name, 1, 6, "weight") for name in ("cell.weight_hh", "both.weight")]
    strips += [strip(model, "both.weight", 2, 6, "weight"), strip(model, "scale.1", 0, 6, "weight")]
    doubled = strip(model, "depth.weight", 0, 6, "weight")
    for name, axis in (("depth.weight", 0), ("depth.bias", 0), ("conv.weight", 0)):
        shape = tuple(model.get_parameter(name).shape)
        role = "bias" if name.endswith("bias") else "weight"
        strips.append(type(doubled)(name, axis, shape, np.arange(12), np.arange(12) // 2, role))
    return one_layer(strips, needs_zero_bias=True)


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
