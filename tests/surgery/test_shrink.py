"""A smaller model that computes the same, and every way in which it can be refused."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from leanrnn import layers
from leanrnn.errors import GroupsError, LeanRNNWarning, ShrinkError, UnsupportedModelError
from leanrnn.groups.groups import Groups, Layer
from leanrnn.groups.norms import group_norms
from leanrnn.running.call import leaves
from leanrnn.running.compare import difference, run, tolerance
from leanrnn.surgery.plan import plan_of
from leanrnn.surgery.shrink import shrink
from leanrnn.surgery.zeroing import zero_
from tests.support.stacks import BATCH, INPUTS, STEPS, random_masks, strip, tagger


def zeroed_tagger(**options):
    """A model in which a few components of every layer are dead, and which."""
    model, groups, x = tagger(**options)
    masks = random_masks(groups)
    zero_(model, groups, masks)
    return model, groups, x, masks


def test_dead_components_go_and_nothing_else_changes():
    model, groups, x, masks = zeroed_tagger(bidirectional=True)
    before = copy.deepcopy(model.state_dict())
    small = shrink(model, groups)
    assert type(small) is type(model) and small is not model
    assert small.rnn.hidden_size == tuple(int(m.sum()) for m in masks.values())
    assert all(torch.equal(model.state_dict()[key], value) for key, value in before.items())
    assert difference(run(model, x), run(small, x)) < 1e-12
    other = torch.randn(2 * STEPS, 1, INPUTS, dtype=torch.float64)
    assert difference(run(model, other), run(small, other)) < 1e-12


def test_biases_count_only_where_the_value_is_read():
    model, groups, _ = tagger()
    zero_(model, groups, random_masks(groups))
    with torch.no_grad():
        model.rnn.bias_ih_l0.fill_(1.0)
    assert shrink(model, groups).rnn.hidden_size == (2, 3)
    first = Layer("rnn._l0", 6, groups[0].strips, needs_zero_bias=True)
    strict = Groups([first, groups[1]])
    strict.example = groups.example
    assert shrink(model, strict).rnn.hidden_size == (6, 3)


@pytest.mark.parametrize(
    ("wish", "widths"),
    [
        ({"keep": {"rnn._l0": [1, 4]}}, (2, 6)),
        ({"ratio": 0.5}, 3),
        ({"ratio": {"rnn._l1": 0.34}}, (6, 4)),
        ({"ratio": 1.0}, 1),
        ({"keep_widths": {"rnn._l0": 5}}, (5, 6)),
        ({"keep_widths": {"rnn._l0": 1, "rnn._l1": 3}, "round_to": 4}, 4),
        ({"ratio": 0.5, "round_to": 8}, 6),
    ],
)
def test_wishes(wish, widths):
    model, groups, _ = tagger()
    assert shrink(model, groups, **wish).rnn.hidden_size == widths


def test_without_a_wish_a_model_without_dead_components_stays_and_says_so():
    model, groups, _ = tagger()
    least = min(float(norms.min()) for norms in group_norms(groups).values())
    with pytest.warns(LeanRNNWarning, match=f"no component is dead. The smallest norm of a group is {least:.3g}"):
        assert shrink(model, groups).rnn.hidden_size == 6


def test_the_smallest_go_first_and_the_largest_dead_come_back():
    model, groups, _ = tagger()
    with torch.no_grad():
        scale = torch.tensor([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
        for s in groups["rnn._l0"].strips:
            shape = [-1 if axis == s.axis else 1 for axis in range(len(s.shape))]
            model.get_parameter(s.tensor).mul_(scale[torch.tensor(s.components)].view(shape).double())
    small = shrink(model, groups, keep_widths={"rnn._l0": 3}, round_to=2)
    assert plan_of(small).layers["rnn._l0"] == [0, 2, 4, 5]


def test_one_component_stays_in_a_layer_that_died():
    model, groups, x = tagger()
    zero_(model, groups, {name: np.zeros(6, bool) for name in groups.names})
    small = shrink(model, groups)
    assert small.rnn.hidden_size == 1 and type(small.rnn) is nn.LSTM
    assert difference(run(model, x), run(small, x)) < 1e-12


@pytest.mark.parametrize(
    "wish",
    [
        {"ratio": 0.5, "keep_widths": {}},
        {"ratio": 1.5},
        {"round_to": 0},
        {"keep_widths": {"rnn._l0": 0}},
        {"keep": {"rnn._l9": [0]}},
        {"keep": {"rnn._l0": [6]}},
    ],
)
def test_impossible_wishes_are_refused(wish):
    model, groups, _ = tagger()
    with pytest.raises(GroupsError):
        shrink(model, groups, **wish)


def test_another_object_of_the_same_shape():
    model, groups, x, _ = zeroed_tagger()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.head.bias.add_(1)
    assert difference(run(twin, x), run(shrink(twin, groups), x)) < 1e-12
    assert groups.model is model
    with pytest.raises(GroupsError, match="shape"):
        shrink(tagger(width=5)[0], groups)


def test_shrinking_twice_counts_in_the_first_model():
    model, groups, x = tagger()
    masks = groups.keep_mask({"rnn._l0": [1, 2, 4, 5]})
    small = shrink(model, groups, keep={"rnn._l0": [1, 2, 4, 5]})
    again = Groups(groups.cut(masks))
    tiny = shrink(small, again, keep={"rnn._l0": [0, 3]}, example=x)
    assert plan_of(tiny).layers["rnn._l0"] == [1, 5]
    assert plan_of(tiny).cuts["rnn.weight_ih_l1", 1] == [1, 5]
    once = shrink(model, groups, keep={"rnn._l0": [1, 5]})
    assert difference(run(once, x), run(tiny, x)) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_types(dtype):
    model, groups, x = tagger(layers=1)
    model.to(dtype)
    groups.example = x.to(dtype)
    assert shrink(model, groups, ratio=0.5).rnn.hidden_size == 3


def test_without_an_example_it_asks_for_one():
    model, groups, x = tagger()
    groups.example = None
    with pytest.raises(ShrinkError, match="example="):
        shrink(model, groups, ratio=0.5)
    assert shrink(model, groups, ratio=0.5, example=x).rnn.hidden_size == 3
    assert shrink(model, groups, ratio=0.5, verify=False).rnn.hidden_size == 3
    with pytest.raises(ShrinkError, match="forward raised RuntimeError"):
        shrink(model, groups, ratio=0.5, example=x[..., :2])


def test_an_inexact_cut_is_refused():
    model, groups, _ = tagger()
    layer = groups["rnn._l1"]
    strips = [s for s in layer.strips if s.tensor != "head.weight"]
    shifted = strip(model, "head.weight", 1, 6, "carried")
    groups.layers = (Layer(layer.name, 6, (*strips, shifted)),)
    model.register_forward_hook(lambda module, args, out: out[0] + module.rnn.bias_hh_l1.mean())
    with pytest.raises(ShrinkError, match=r"differs .* by"):
        shrink(model, groups, ratio=0.5)


class Remembering(nn.Module):
    """A forward that builds its states and views from numbers."""

    def __init__(self, style: str):
        super().__init__()
        self.style, self.hidden_dim, self.embed = style, 6, 6
        self.sizes, self.config = [INPUTS, 6], Config(6)
        self.cell = nn.RNNCell(INPUTS, 6)
        self.rnn = nn.GRU(6, 6, 2)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        width = {"number": self.hidden_dim, "list": self.sizes[1], "config": self.config.width}.get(self.style)
        h = x.new_zeros(x.size(1), width or self.cell.hidden_size)
        outputs = []
        for step in x:
            h = self.cell(step, h)
            outputs.append(h)
        state = x.new_zeros(2, x.size(1), self.rnn.hidden_size)
        hidden = torch.stack(outputs).view(x.size(0), -1, width or h.size(-1))
        # A number that only looks like a width.
        return self.head(self.rnn(hidden, state)[0]) / self.embed


@dataclass(frozen=True)
class Config:
    width: int


def remembering(style):
    model = Remembering(style).double()
    cell = [strip(model, f"cell.weight_{p}", 0, 6, "weight") for p in ("ih", "hh")]
    cell += [strip(model, f"cell.bias_{p}", 0, 6, "bias") for p in ("ih", "hh")]
    cell += [strip(model, name, 1, 6, "weight", reader=True) for name in ("cell.weight_hh", "rnn.weight_ih_l0")]
    stack = []
    for i, reader in enumerate(("rnn.weight_ih_l1", "head.weight")):
        own = [strip(model, f"rnn.weight_{p}_l{i}", 0, 6, "weight") for p in ("ih", "hh")]
        own += [strip(model, f"rnn.bias_{p}_l{i}", 0, 6, "bias") for p in ("ih", "hh")]
        own += [strip(model, name, 1, 6, "weight", reader=True) for name in (f"rnn.weight_hh_l{i}", reader)]
        stack.append(Layer(f"rnn.{i}", 6, tuple(own)))
    groups = Groups([Layer("cell", 6, tuple(cell)), *stack], model=model)
    groups.example = torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    return model, groups


@pytest.mark.parametrize("style", ["number", "list", "config", "module"])
@pytest.mark.parametrize("widths", [(4, 4, 4), (4, 3, 2), (6, 3, 2)])
def test_remembered_numbers_follow(style, widths):
    model, groups = remembering(style)
    small = shrink(model, groups, keep_widths=dict(zip(groups.names, widths, strict=True)))
    assert small.embed == 6, "it is no width"
    numbers = {"number": small.hidden_dim, "list": small.sizes[1], "config": small.config.width}
    assert numbers.get(style, widths[0]) == widths[0]
    assert model.hidden_dim == model.sizes[1] == model.config.width == 6


def test_what_cannot_be_set_is_named_with_its_line():
    model, groups, _ = tagger()
    model.register_forward_hook(lambda module, args, out: out[0] + 0 * out[1][0][..., 5].sum())
    with pytest.raises(ShrinkError, match=r"test_shrink\.py:\d+.*tensor's shape"):
        shrink(model, groups, ratio=0.5)


class Stateful(nn.Module):
    """Keeps its state in an attribute from call to call."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head, self.state = nn.GRU(INPUTS, 6), nn.Linear(6, 4), None

    def forward(self, x):
        out, self.state = self.rnn(x, self.state)
        return self.head(out)


def test_a_state_kept_by_the_model_is_accepted():
    _, groups, x = tagger("GRU", layers=1)
    model = Stateful().double()
    model(x)
    small = shrink(model, groups, ratio=0.5)
    assert type(small.rnn) is layers.GRU and model.state.size(-1) == 6
    assert small(x).shape == (STEPS, BATCH, 4) and small.state.size(-1) == 3


def test_a_model_that_cannot_be_copied_is_refused():
    model, groups, _ = tagger()

    class Refusing(nn.Module):
        def __deepcopy__(self, memo):
            raise TypeError("not me")

    model.part = Refusing()
    with pytest.raises(UnsupportedModelError, match="cannot be copied"):
        shrink(model, groups, ratio=0.5)


def test_training_mode_is_checked_with_randomness_held_still():
    model, groups, x = tagger(dropout=0.5)
    state = torch.get_rng_state()
    small = shrink(model.train(), groups, ratio=0.5)
    assert small.training and torch.equal(state, torch.get_rng_state())
    first, second = run(model, x), run(model, x)
    assert difference(first, second) == 0 and not torch.equal(small(x)[0], small(x)[0])


def test_a_run_leaves_no_trace():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    x, before = torch.randn(5, 3), copy.deepcopy(model.state_dict())
    run(model, x)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training and all(p.grad is None for p in model.parameters())


@dataclass
class Answer:
    logits: torch.Tensor
    rest: dict


def test_results_of_every_form_are_taken_apart():
    one = torch.ones(3, 2)
    packed = pack_padded_sequence(one.unsqueeze(-1), torch.tensor([3, 2]))
    states = layers.States([one, torch.ones(3, 1)])
    found = leaves(Answer(one, {"a": (one, [packed]), "b": states, "c": None, "d": object()}))
    assert [tuple(t.shape) for t in found] == [(3, 2), (3, 2), (5, 1), (3, 2), (3, 1)]


def test_difference():
    a, nan = torch.tensor([1.0, -4.0]), torch.tensor([1.0, float("nan")])
    assert difference([a], [a + 0.4]) == pytest.approx(0.1)
    assert difference([nan], [nan]) == 0 and difference([torch.zeros(2)], [torch.zeros(2)]) == 0
    assert difference([a, a], [a, a[:1]]) == 0, "a narrower leaf is a state"
    for expected, actual in (([a], [nan]), ([a], [a, a]), ([a], [a[:1]]), ([a], [a / 0])):
        assert difference(expected, actual) == float("inf")
    assert difference([a + 1j], [a + 1.4j]) == pytest.approx(0.1)
    assert tolerance(nn.Linear(1, 1), [a.double()]) == 1e-5 and tolerance(nn.Identity(), [a.double()]) == 1e-12
