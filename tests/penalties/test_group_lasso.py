"""Group lasso against plain loops, its proximal step against optimality."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups, Layer, Strip
from leanrnn.groups.norms import alive, group_norms
from leanrnn.penalties.group_lasso import GroupLasso
from tests.support.handmade import kill_, language, language_groups

EPSILON = 1e-8


def squares_by_loop(groups: Groups) -> Tensor:
    """Sum of squares of every group, one slice at a time."""
    tensors, found = groups.tensors(), []
    for layer in groups:
        weights = {s.tensor for s in layer.strips if s.role == "weight"}
        for k in range(layer.width):
            parts = [tensors[t].select(axis, i).square().sum() for t, axis, i in layer.slices(k) if t in weights]
            found.append(torch.stack(parts).sum())
    return torch.stack(found)


def value_by_loop(groups: Groups, first: float = 1.0) -> Tensor:
    roots, width = (squares_by_loop(groups) + EPSILON).sqrt(), groups.layers[0].width
    return first * roots[:width].sum() + roots[width:].sum()


def grads(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def plain(shapes: dict[str, tuple[int, ...]], layers: list[Layer], seed: int = 0) -> Groups:
    """Groups over bare parameters."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Module()
    for name, shape in shapes.items():
        model.register_parameter(name, nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)))
    return Groups(layers, model=model)


def rows(tensor: str, shape: tuple[int, ...], axis: int, components: list[int], at: int = 0) -> Strip:
    positions = at + np.arange(len(components))
    return Strip(tensor, axis, shape, positions, np.asarray(components), "weight")


def concatenated() -> Groups:
    """Two layers read side by side by one matrix, an axis with a gap, a convolution, and a shared position."""
    a, c = (5, 4), (3, 6, 2)
    first = Layer("first", 2, (rows("a", a, 1, [0, 1]), rows("c", c, 1, [0, 1, 0, 1]), rows("a", a, 0, [1, 0], 3)))
    second = Layer("second", 2, (rows("a", a, 1, [1, 0], 2), rows("c", c, 1, [0, 1, 1], 3), rows("c", c, 0, [0, 1])))
    return plain({"a": a, "c": c}, [first, second])


def recurrent() -> Groups:
    return language()[1]


@pytest.mark.parametrize("first", [1.0, 0.3, 2.5])
@pytest.mark.parametrize("make", [recurrent, concatenated])
def test_value_and_gradient_equal_autograd_on_a_loop(make, first):
    groups = make()
    penalty = GroupLasso(groups, weights={groups.names[0]: first})
    truth = value_by_loop(groups, first)
    truth.backward()
    expected = {name: grad.clone() for name, grad in grads(groups.model).items()}
    assert abs(penalty.value() - truth) < 1e-10

    groups.model.zero_grad()
    (3 * penalty.value()).backward()
    in_loss = {name: grad.clone() for name, grad in grads(groups.model).items()}
    groups.model.zero_grad()
    penalty.add_gradient_(1.0)
    penalty.add_gradient_(torch.tensor(2.0))
    assert expected.keys() == in_loss.keys() == grads(groups.model).keys()
    for name, grad in expected.items():
        torch.testing.assert_close(in_loss[name], 3 * grad, rtol=0, atol=1e-10)
        torch.testing.assert_close(grads(groups.model)[name], 3 * grad, rtol=0, atol=1e-10)


def test_weights_are_for_layers_there_are():
    groups = concatenated()
    for weights in ({"third": 1.0}, {"first": -1.0}, {"first": float("nan")}):
        with pytest.raises(GroupsError, match="at least 0 for first, second"):
            GroupLasso(groups, weights=weights)


@pytest.mark.parametrize("make", [recurrent, concatenated])
def test_norms_leave_epsilon_out(make):
    groups = make()
    norms = torch.cat(list(GroupLasso(groups).norms().values()))
    torch.testing.assert_close(norms, squares_by_loop(groups).sqrt().detach(), rtol=1e-12, atol=0)
    assert list(group_norms(groups)) == groups.names


def test_a_dead_group_has_no_norm_and_no_gradient():
    _, groups = language()
    kill_(groups, {"rnn.l0": [2, 4], "rnn.l1": [0]})
    penalty = GroupLasso(groups)
    penalty.add_gradient_(1.0)
    assert [int(n.count_nonzero()) for n in penalty.norms().values()] == [4, 5]
    assert all(g.isfinite().all() for g in grads(groups.model).values())
    living = alive(groups)
    assert np.flatnonzero(~living["rnn.l0"]).tolist() == [2, 4] and np.flatnonzero(~living["rnn.l1"]).tolist() == [0]


def test_a_weight_too_small_to_square_is_alive():
    model, groups = language(dtype=torch.float32)
    kill_(groups, {"rnn.l0": [1]})
    model.rnn.weight_hh_l0.data[1, 3] = 1e-30
    assert alive(groups)["rnn.l0"][1] and group_norms(groups)["rnn.l0"][1] == 0


def test_biases_decide_only_where_the_value_itself_is_read():
    model, groups = language()
    kill_(groups, {"rnn.l0": [1]})
    groups.layers = tuple(Layer(la.name, la.width, la.strips, needs_zero_bias=True) for la in groups)
    assert alive(groups)["rnn.l0"][1]
    GroupLasso(groups).add_gradient_(1.0)
    assert model.rnn.bias_ih_l0.grad is not None
    kill_(groups, {"rnn.l0": [1]}, biases=True)
    assert not alive(groups)["rnn.l0"][1]


def test_frozen_parameters_count():
    model, groups = language()
    before = GroupLasso(groups).norms()["rnn.l1"]
    model.head.weight.requires_grad_(False)
    torch.testing.assert_close(GroupLasso(groups).norms()["rnn.l1"], before)


def test_new_parameters_and_cut_groups_are_taken_up():
    model, groups = language()
    penalty = GroupLasso(groups, weights={"rnn.l0": 0.3})
    model.head.weight = nn.Parameter(torch.ones_like(model.head.weight))
    torch.testing.assert_close(penalty.value(), value_by_loop(groups, 0.3))
    smaller, _ = language(width=3)
    penalty.cut_(groups.keep_mask({"rnn.l0": [0, 1, 2], "rnn.l1": [1, 2, 4]}))
    groups.layers = language_groups(smaller).layers
    groups.bind(smaller)
    torch.testing.assert_close(penalty.value(), value_by_loop(groups, 0.3))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_narrow_floats_are_summed_in_float32(dtype, tolerance):
    _, groups = language(dtype=dtype, width=40)
    penalty = GroupLasso(groups)
    truth = copy.deepcopy(groups)
    truth.bind(truth.model.double())
    assert penalty.value().dtype == torch.float32
    torch.testing.assert_close(penalty.value().double(), value_by_loop(truth), rtol=1e-6, atol=0)
    penalty.add_gradient_(1.0)
    value_by_loop(truth).backward()
    for name, grad in grads(groups.model).items():
        assert grad.dtype == dtype
        torch.testing.assert_close(grad.double(), grads(truth.model)[name], rtol=tolerance, atol=tolerance)


def apart() -> Groups:
    """Groups that share no weight."""
    first = Layer("first", 3, (rows("a", (6, 4), 0, [0, 1, 2, 0, 1, 2]), rows("b", (3, 2), 0, [2, 1, 0])))
    return plain({"a": (6, 4), "b": (3, 2)}, [first])


def flat(groups: Groups) -> dict[str, Tensor]:
    return {name: t.detach().clone() for name, t in groups.tensors().items()}


def proximal_objective(groups: Groups, old: dict[str, Tensor], step: float) -> float:
    moved = sum(float((t.detach() - old[name]).square().sum()) for name, t in groups.tensors().items())
    return moved / 2 + step * float(squares_by_loop(groups).detach().sqrt().sum())


def test_proximal_step_is_optimal_where_groups_share_no_weight():
    groups, step = apart(), 1.0
    groups.model.b.data[1] /= 100
    groups.model.a.data[[1, 4]] /= 100
    old = flat(groups)
    GroupLasso(groups).proximal_(step)
    layer, tensors = groups["first"], flat(groups)
    dead = 0
    for k in range(layer.width):
        new = torch.cat([tensors[t].select(a, i).flatten() for t, a, i in layer.slices(k)])
        pull = torch.cat([old[t].select(a, i).flatten() for t, a, i in layer.slices(k)]) - new
        if new.norm() == 0:
            dead += 1
            assert pull.norm() <= step
        else:
            torch.testing.assert_close(pull, step * new / new.norm(), rtol=0, atol=1e-10)
    assert dead == 1


@pytest.mark.parametrize("step", [1e-3, 0.3, 0.9, 1.4, 3.0])
@pytest.mark.parametrize("make", [recurrent, concatenated])
def test_proximal_step_never_increases_its_objective_where_groups_overlap(make, step):
    groups = make()
    old, norms = flat(groups), squares_by_loop(groups).sqrt()
    before = proximal_objective(groups, old, step)
    GroupLasso(groups).proximal_(step)
    assert proximal_objective(groups, old, step) < before
    assert bool((squares_by_loop(groups)[norms <= step] == 0).all())


def test_fixed_points_of_the_proximal_step():
    _, groups = language()
    old = flat(groups)
    GroupLasso(groups).proximal_(0.0)
    assert all(torch.equal(t, old[name]) for name, t in flat(groups).items())
    GroupLasso(groups).proximal_(1e9)
    GroupLasso(groups).proximal_(0.0)
    assert not squares_by_loop(groups).any()


def test_sparse_gradients_and_bad_epsilon_are_refused():
    groups = plain({"a": (4, 3)}, [Layer("a", 3, (rows("a", (4, 3), 1, [0, 1, 2]),))])
    groups.model.a.grad = torch.zeros(4, 3, dtype=torch.float64).to_sparse()
    with pytest.raises(GroupsError, match="sparse=False"):
        GroupLasso(groups).add_gradient_(1.0)
    with pytest.raises(GroupsError, match="epsilon"):
        GroupLasso(groups, epsilon=-1.0)
