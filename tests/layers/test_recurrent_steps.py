"""Our steps of recurrent layers give the numbers of torch's operators, and only where nobody looks into them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn import layers
from leanrnn.layers import fused
from leanrnn.layers.recurrent_steps import OPERATORS, quick_steps

MODES = ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"]
QUICK = MODES[1:]
IN, H, BATCH, TIME = 5, 7, 3, 6


def made(mode: str, **more: Any) -> nn.RNNBase:
    torch.manual_seed(0)
    if mode.startswith("RNN"):
        return nn.RNN(IN, H, nonlinearity=mode.removeprefix("RNN_").lower(), **more).double()
    return {"LSTM": nn.LSTM, "GRU": nn.GRU}[mode](IN, H, **more).double()


def given(mode: str, batch: int = BATCH, steps: int = TIME) -> tuple[Tensor, list[Tensor]]:
    """Input and state, which want gradients."""
    parts = 2 if mode == "LSTM" else 1
    state = [torch.randn(1, batch, H, dtype=torch.double, requires_grad=True) for _ in range(parts)]
    return torch.randn(steps, batch, IN, dtype=torch.double, requires_grad=True), state


def own(mode: str, x: Tensor, state: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
    """By torch's operator."""
    start = tuple(state) if mode == "LSTM" else state[0]
    found: tuple[Tensor, ...] = OPERATORS[mode](x, start, weights, len(weights) > 2, 1, 0.0, True, False, False)
    return found


def ours(mode: str, x: Tensor, state: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
    output, last = quick_steps(mode, x, state, weights)
    return output, *last


@pytest.fixture
def taken() -> Iterator[mock.Mock]:
    """How often our steps were called, from torch's modules and from ours."""
    counted = mock.Mock(side_effect=quick_steps)
    with mock.patch.object(fused, "quick_steps", counted):
        yield counted


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("batch", "steps"), [(BATCH, TIME), (1, TIME), (BATCH, 1)])
@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients_are_those_of_torch(mode, batch, steps, bias):
    weights = list(made(mode, bias=bias).parameters())
    x, state = given(mode, batch, steps)
    found = []
    for way in (own, ours):
        answer = way(mode, x, state, weights)
        torch.manual_seed(1)  # the output and the last state have gradients of their own
        gradients = torch.autograd.grad(answer, [x, *state, *weights], [torch.randn_like(each) for each in answer])
        found.append((*answer, *gradients))
    for wanted, got in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_right_once_and_twice(mode):
    weights = list(made(mode).parameters())
    x, state = given(mode, 2, 3)

    def call(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        return ours(mode, x, list(rest[: len(state)]), list(rest[len(state) :]))

    assert torch.autograd.gradcheck(call, (x, *state, *weights))
    assert torch.autograd.gradgradcheck(call, (x, *state, *weights))


@pytest.mark.parametrize("mode", MODES)
def test_what_is_frozen_has_no_gradient_and_the_rest_has_its_own(mode):
    module = made(mode)
    x, state = given(mode)
    module.get_parameter("weight_hh_l0").requires_grad_(False)
    module.get_parameter("bias_hh_l0").requires_grad_(False)
    found = []
    for way in (own, ours):
        way(mode, x.detach(), [each.detach() for each in state], list(module.parameters()))[0].sum().backward()
        found.append([p.grad for p in module.parameters()])
        module.zero_grad()
    for wanted, got in zip(*found, strict=True):
        assert (wanted is None) == (got is None)
        assert wanted is None or torch.allclose(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_the_answer_may_be_changed_in_place_and_the_graph_used_twice(mode):
    weights = list(made(mode).parameters())
    x, state = given(mode)
    output, *last = ours(mode, x, state, weights)
    wanted = torch.autograd.grad(output.sum(), weights, retain_graph=True)
    last[0].zero_()
    doubled = output.mul_(2).sum()
    found = torch.autograd.grad(doubled, weights, retain_graph=True)
    again = torch.autograd.grad(doubled, weights)
    for one, two, three in zip(wanted, found, again, strict=True):
        torch.testing.assert_close(two, 2 * one, rtol=0, atol=1e-12)
        assert torch.equal(two, three)


SHAPES = [{}, {"batch_first": True}, {"num_layers": 2, "dropout": 0.5, "bidirectional": True}, {"bias": False}]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mode", QUICK)
def test_a_module_of_torch_is_quick_inside_the_context(mode, shape, taken):
    module = made(mode, **shape)
    found = []
    for inside in (nullcontext(), layers.quick()):
        torch.manual_seed(1)
        x = torch.randn(4, 4, IN, dtype=torch.double)
        with inside:
            output, last = module(x)
        found.append([output, last, *torch.autograd.grad(output.sum() + last.square().sum(), module.parameters())])
    assert taken.call_count == (4 if shape.get("bidirectional") else 1)
    for wanted, got in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


def test_a_recurrence_of_unequal_widths_is_quick_without_a_context(taken):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = made("GRU", num_layers=2, bidirectional=True), nn.Linear(2 * H, 2).double()

        def forward(self, x: Tensor) -> Any:
            return self.head(self.rnn(x)[0])

    model, x = Model(), torch.randn(TIME, BATCH, IN, dtype=torch.double)
    groups = leanrnn.discover(model, x)
    layer = next(iter(groups))
    keep = {layer.name: torch.arange(H) > 2}
    small = leanrnn.shrink(model, groups, keep=keep, example=x)
    taken.reset_mock()
    found = []
    for way in (True, False):
        small.train(way)
        found.append(torch.autograd.grad(small(x).square().sum(), small.parameters()))
    assert taken.call_count == 4  # while training
    for wanted, got in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


half = pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="needs products in bfloat16")


@half
@pytest.mark.parametrize("mode", MODES)
def test_under_autocast_it_is_as_near_to_the_truth_as_torch(mode, taken):
    torch.manual_seed(0)
    width, x = 400, torch.randn(TIME, BATCH, IN)
    module = made(mode).__class__(IN, width, **({"nonlinearity": "relu"} if mode == "RNN_RELU" else {}))
    exact, truth = copy.deepcopy(module).double(), None
    found = []
    for inside in (nullcontext(), layers.quick(), None):
        here, data = (exact, x.double()) if inside is None else (module, x)
        data = data.clone().requires_grad_()
        with inside or nullcontext(), torch.autocast("cpu", torch.bfloat16, enabled=inside is not None):
            output, last = here(data)
        last = list(last) if mode == "LSTM" else [last]
        loss = output.double().square().mean() + sum(each.double().square().mean() for each in last)
        found.append([output, *last, *torch.autograd.grad(loss, [data, *here.parameters()])])
    assert taken.call_count == 1
    for torchs, got, truth in zip(*found, strict=True):
        assert got.dtype == torchs.dtype
        error, allowed = ((each - truth).norm() / truth.norm() for each in (got, torchs))
        assert error <= 1.2 * allowed + 1e-3


@half
def test_narrow_lstms_are_torchs_even_under_autocast(taken):
    with layers.quick(), torch.autocast("cpu", torch.bfloat16):
        nn.LSTM(IN, 64)(torch.randn(TIME, BATCH, IN))
    assert not taken.called


def _grads(module: nn.RNNBase, x: Tensor) -> Any:
    return torch.func.grad(lambda p: torch.func.functional_call(module, p, (x,))[0].sum())(
        dict(module.named_parameters())
    )


def _without(module: nn.RNNBase, x: Tensor) -> Any:
    with torch.no_grad():
        return module(x)


def _forwards(module: nn.RNNBase, x: Tensor) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return module(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


def _packed(module: nn.RNNBase, x: Tensor) -> Any:
    return module(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 2])))


def _autocast(module: nn.RNNBase, x: Tensor) -> Any:
    with torch.autocast("cpu", torch.float16):
        return module(x)


ELSEWHERE: dict[str, Callable[[nn.RNNBase, Tensor], Any]] = {
    "evaluation": lambda module, x: module.eval()(x),
    "no gradient": _without,
    "frozen": lambda module, x: module.requires_grad_(False)(x),
    "torch.func": _grads,
    "forwards": _forwards,
    "packed": _packed,
    "autocast": _autocast,
    "no sequence": lambda module, x: module(x[:, :0]),
    "meta": lambda module, x: module.to("meta")(x.to("meta")),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # by torch itself
@pytest.mark.parametrize("where", ELSEWHERE)
def test_elsewhere_it_is_torchs_operator(where, taken):
    module, x = made("GRU").float(), torch.randn(TIME, BATCH, IN)
    with layers.quick():
        ELSEWHERE[where](module, x)
    assert not taken.called


def test_what_torch_refuses_is_refused_in_its_words():
    module = made("GRU")
    with layers.quick():
        with pytest.raises(RuntimeError, match=r"input\.size"):
            module(torch.randn(TIME, BATCH, IN + 1, dtype=torch.double))
        with pytest.raises((RuntimeError, ValueError), match="dtype"):
            module(torch.randn(TIME, BATCH, IN))
