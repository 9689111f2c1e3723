"""Saliency is the squared derivative of the loss by a gate on a component, found without a gate: against autograd."""

import io
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from leanrnn import Saliency, discover
from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.layers import RecurrentHighway
from leanrnn.sparsify.saliency import handles
from tests.sparsify.test_compact import HomeMade, Tied
from tests.support.handmade import language
from tests.support.training import batches, data_loss


class Gated(nn.Module):
    """One recurrent layer written out, with an explicit gate on everything that is read of its state."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.cell, self.rnn = cell, {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cell](3, 5)
        self.head = nn.Linear(5, 4)

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        if gate is None:
            return self.head(self.rnn(x)[0])
        h = c = x.new_zeros(x.shape[1], 5)
        outputs = []
        for step in x:
            a = functional.linear(step, self.rnn.weight_ih_l0, self.rnn.bias_ih_l0)
            b = functional.linear(h * gate, self.rnn.weight_hh_l0, self.rnn.bias_hh_l0)
            h, c = CELLS[self.cell](a, b, h, c)
            outputs.append(h)
        return self.head(torch.stack(outputs) * gate)


def _lstm(a: Tensor, b: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = (a + b).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(a: Tensor, b: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    (ra, za, na), (rb, zb, nb) = a.chunk(3, -1), b.chunk(3, -1)
    z = (za + zb).sigmoid()
    return (1 - z) * (na + (ra + rb).sigmoid() * nb).tanh() + z * h, c


CELLS = {"lstm": _lstm, "gru": _gru, "rnn": lambda a, b, h, c: ((a + b).tanh(), c)}


@pytest.mark.parametrize("cell", CELLS)
def test_it_is_the_derivative_by_a_gate_on_what_is_read_of_the_state(cell: str):
    model = Gated(cell).double()
    x, groups = torch.randn(6, 2, 3, dtype=torch.float64), discover(model, torch.zeros(6, 2, 3, dtype=torch.float64))
    gate = torch.ones(5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(model(x, gate), model(x))
    (slope,) = torch.autograd.grad(model(x, gate).square().sum(), gate)
    saliency = Saliency(groups)
    model(x).square().sum().backward()
    saliency.update()
    torch.testing.assert_close(saliency.scores()["rnn.l0"], slope.square(), rtol=1e-10, atol=0)


def by_factor(model: nn.Module, groups: Groups, *inputs: Tensor) -> dict[str, Tensor]:
    """The squared derivative by a factor on the handle of every component, from autograd."""
    factors = {la.name: torch.ones(la.width, dtype=torch.float64, requires_grad=True) for la in groups}
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    for name, strips in handles(groups).items():
        for strip in strips:
            spread = torch.ones(strip.shape[strip.axis], dtype=torch.float64)
            spread = spread.index_copy(0, torch.from_numpy(strip.positions), factors[name][strip.components])
            shape = [-1 if axis == strip.axis else 1 for axis in range(len(strip.shape))]
            tensors[strip.tensor] = tensors[strip.tensor] * spread.view(shape)
    loss_of(functional_call(model, tensors, inputs)).backward()
    return {name: factor.grad.square() for name, factor in factors.items()}


def loss_of(output: object) -> Tensor:
    output = output[0] if isinstance(output, tuple) else output
    return (output * torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view(output.shape)).square().sum()


class Stack(nn.Module):
    """Two layers of a kind, in both directions if asked for, with a head."""

    def __init__(self, kind: type[nn.RNNBase] = nn.LSTM, both: bool = False, depth: int = 2) -> None:
        super().__init__()
        self.rnn = kind(3, 4, depth, bidirectional=both)
        self.head = nn.Linear(8 if both else 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


class Highway(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = RecurrentHighway(3, 4, depth=2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


class Asked(nn.Module):
    """What a linear layer makes is read by a dot product, so no weight has it all."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.query, self.key = nn.GRU(3, 4), nn.Linear(4, 5), nn.Linear(4, 5)

    def forward(self, x: Tensor, gate: Tensor | float = 1.0) -> Tensor:
        h = self.rnn(x)[0].transpose(0, 1)
        return (self.query(h) * gate) @ self.key(h).transpose(1, 2)


WORDS = torch.randint(0, 7, (4, 3))
MODELS = {
    "lstm": (Stack, None),
    "gru, both directions": (lambda: Stack(nn.GRU, both=True), None),
    "rnn": (lambda: Stack(nn.RNN), None),
    "highway": (Highway, None),
    "home-made": (HomeMade, WORDS),
    "tied matrices": (Tied, WORDS),
    "dot product": (Asked, None),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scope", ["recurrent", "all"])
def test_it_is_the_derivative_by_a_factor_on_the_handle(name: str, scope: str):
    make, example = MODELS[name]
    model = make().double()
    example = torch.randn(4, 2, 3, dtype=torch.float64) if example is None else example
    groups = discover(model, example, scope=scope)
    expected = by_factor(model, groups, example)
    saliency = Saliency(groups)
    loss_of(model(example)).backward()
    saliency.update()
    assert list(saliency.scores()) == groups.names
    for layer, score in saliency.scores().items():
        assert score.abs().max() > 0
        torch.testing.assert_close(score, expected[layer], rtol=1e-9, atol=1e-20, msg=layer)


def test_what_a_dot_product_reads_is_judged_by_what_makes_it():
    model, x = Asked().double(), torch.randn(4, 2, 3, dtype=torch.float64)
    groups = discover(model, x, scope="all")
    layer = next(layer for layer in groups if layer.needs_zero_bias)
    makers = {strip.tensor for strip in handles(groups)[layer.name]}
    assert makers == {"query.weight", "query.bias", "key.weight", "key.bias"}
    gate = torch.ones(5, dtype=torch.float64, requires_grad=True)
    # Both sides of the product are the component: a gate on either is half of it.
    (slope,) = torch.autograd.grad(loss_of(model(x, gate)), gate)
    saliency = Saliency(groups)
    loss_of(model(x)).backward()
    saliency.update()
    torch.testing.assert_close(saliency.scores()[layer.name], (2 * slope).square(), rtol=1e-9, atol=0)


def test_frozen_readers_leave_it_to_the_makers_and_nothing_trainable_is_refused():
    model, groups = language()
    model.head.weight.requires_grad_(False)
    assert {s.tensor for s in handles(groups)["rnn.l1"]} >= {"rnn.weight_ih_l1", "rnn.bias_hh_l1"}
    assert all(s.reader for s in handles(groups)["rnn.l0"])
    model.rnn.weight_hh_l1.requires_grad_(False)
    with pytest.raises(GroupsError, match=r"rnn\.l1.*rnn\.weight_hh_l1"):
        Saliency(groups)


def read(groups: Groups, saliency: Saliency, seed: int, scale: float = 1.0) -> None:
    groups.model.zero_grad()
    (scale * data_loss(groups.model, batches(1, seed)[0])).backward()
    saliency.update(scale)


def test_the_average_runs_over_a_window_or_over_all():
    groups = language()[1]
    alone = []
    for seed in range(5):
        one = Saliency(groups)
        read(groups, one, seed)
        alone.append(one.scores()["rnn.l1"])
    every, last = Saliency(groups), Saliency(groups, window=2)
    for seed in range(5):
        read(groups, every, seed)
        read(groups, last, seed, scale=2.0**10)
    torch.testing.assert_close(every.scores()["rnn.l1"], torch.stack(alone).mean(0), rtol=1e-12, atol=0)
    expected = alone[0]
    for new in alone[1:]:
        expected = (expected + new) / 2
    torch.testing.assert_close(last.scores()["rnn.l1"], expected, rtol=1e-12, atol=0)


def test_a_reading_that_overflowed_does_not_count():
    groups = language()[1]
    saliency = Saliency(groups)
    read(groups, saliency, 1)
    before = saliency.scores()["rnn.l0"].clone()
    groups.model.rnn.weight_hh_l0.grad[0, 0] = math.inf
    saliency.update()
    assert torch.equal(saliency.scores()["rnn.l0"], before)


def test_it_is_cut_along_saved_and_loaded():
    groups = language()[1]
    saliency = Saliency(groups, window=3)
    for seed in range(4):
        read(groups, saliency, seed)
    state = torch.load(_file(saliency.state_dict()), weights_only=True)
    again = Saliency(language()[1], window=3)
    again.load_state_dict(state)
    assert all(torch.equal(again.scores()[name], score) for name, score in saliency.scores().items())
    masks = groups.keep_mask({"rnn.l0": [1, 4], "rnn.l1": [0, 2, 3]})
    before = saliency.scores()
    saliency.cut_(masks)
    groups.layers = groups.cut(masks)
    assert torch.equal(saliency.scores()["rnn.l0"], before["rnn.l0"][[1, 4]])
    assert torch.equal(saliency.scores()["rnn.l1"], before["rnn.l1"][[0, 2, 3]])
    with pytest.raises(GroupsError, match="other widths"):
        saliency.load_state_dict(state)


def _file(state: dict[str, object]) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def test_misuse_is_refused():
    groups = language()[1]
    with pytest.raises(GroupsError, match="window is 0"):
        Saliency(groups, window=0)
    saliency = Saliency(groups)
    with pytest.raises(GroupsError, match="no saliency yet"):
        saliency.scores()
    groups.layers = groups.cut(groups.keep_mask({"rnn.l0": np.arange(3)}))
    with pytest.raises(GroupsError, match="without their saliency"):
        saliency.update()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_weights_are_summed_in_single_precision(dtype: torch.dtype):
    model, groups = language(dtype=dtype)
    saliency = Saliency(groups)
    read(groups, saliency, 1)
    score = saliency.scores()["rnn.l1"]
    assert score.dtype == torch.float32 and score.isfinite().all()
    w, g = model.rnn.weight_hh_l1.float(), model.rnn.weight_hh_l1.grad.float()
    v, d = model.head.weight.float(), model.head.weight.grad.float()
    torch.testing.assert_close(score, ((w * g).sum(0) + (v * d).sum(0)).square(), rtol=1e-4, atol=1e-10)
