"""Under ``torch.compile`` every layer answers as it does without: values, gradients, before a cut and after it."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import leanrnn
from leanrnn import layers
from leanrnn.layers import fused
from leanrnn.layers.recurrent_steps import quick_steps

pytestmark = [
    # Torch's compiler looks at .grad of whatever passes from one graph to the next, and makes an autograd.Function.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"),
]

IN, H, BATCH, TIME = 5, 6, 3, 2


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Reader(nn.Module):
    """An embedding, a recurrent stack whose last state and outputs are read."""

    def __init__(self, rnn: nn.RNNBase) -> None:
        super().__init__()
        directions = 2 if rnn.bidirectional else 1
        self.enter, self.rnn = nn.Linear(IN, IN), rnn
        self.leave = nn.Linear((rnn.proj_size or H) * directions, 2)

    def forward(self, x: Tensor) -> Tensor:
        output, state = self.rnn(self.enter(x).tanh())
        last: Tensor = (state[0] if isinstance(state, tuple) else state)[-1]
        return self.leave(output).sum(0) + last.mean(-1, keepdim=True)


class Packed(Reader):
    """Sequences of several lengths."""

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.enter(x).tanh(), torch.tensor([1, 2, 1]), enforce_sorted=False)
        output, _ = self.rnn(packed)
        assert isinstance(output, PackedSequence)
        return self.leave(output.data)


class Steps(nn.Module):
    """A cell, called step by step."""

    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell, self.leave = cell, nn.Linear(H, 2)

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for each in x.unbind(0):
            state = self.cell(each, state)
        return self.leave(state[0] if isinstance(state, tuple) else state)


class Normed(nn.Module):
    """A norm between a recurrent layer and the one that reads it."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.rnn, self.norm, self.leave = nn.GRU(IN, H), norm, nn.Linear(H, 2)

    def forward(self, x: Tensor) -> Tensor:
        output = self.rnn(x)[0]
        return self.leave(self.norm(output.flatten(0, 1)).view_as(output))


class Attentive(nn.Module):
    """Attention over what a recurrent layer says."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.attend, self.leave = nn.GRU(IN, H), nn.MultiheadAttention(H, 2), nn.Linear(H, 2)

    def forward(self, x: Tensor) -> Tensor:
        output = self.rnn(x)[0]
        return self.leave(self.attend(output, output, output)[0])


class Highway(nn.Module):
    """A recurrent highway layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.leave = layers.RecurrentHighway(IN, H, depth=2, hidden_dropout=0.0), nn.Linear(H, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.rnn(x)[0])


def stack(kind: type[nn.RNNBase], **options: Any) -> nn.RNNBase:
    return kind(IN, H, num_layers=2, **options)


MODELS: dict[str, tuple[Callable[[], nn.Module], type[nn.Module]]] = {
    "LSTM": (lambda: Reader(stack(nn.LSTM)), layers.LSTM),
    "LSTM in two directions": (lambda: Reader(stack(nn.LSTM, bidirectional=True)), layers.LSTM),
    "LSTM projected": (lambda: Reader(stack(nn.LSTM, proj_size=4)), layers.LSTM),
    "LSTM packed": (lambda: Packed(stack(nn.LSTM, bidirectional=True)), layers.LSTM),
    "GRU": (lambda: Reader(stack(nn.GRU)), layers.GRU),
    "RNN": (lambda: Reader(stack(nn.RNN)), layers.RNN),
    "LSTMCell": (lambda: Steps(nn.LSTMCell(IN, H)), nn.LSTMCell),
    "GRUCell": (lambda: Steps(nn.GRUCell(IN, H)), nn.GRUCell),
    "RNNCell": (lambda: Steps(nn.RNNCell(IN, H)), nn.RNNCell),
    "LayerNorm": (lambda: Normed(nn.LayerNorm(H)), layers.LayerNorm),
    "RMSNorm": (lambda: Normed(nn.RMSNorm(H)), layers.RMSNorm),
    "GroupNorm": (lambda: Normed(nn.GroupNorm(2, H)), layers.GroupNorm),
    "MultiheadAttention": (Attentive, layers.MultiheadAttention),
    "RecurrentHighway": (Highway, layers.RecurrentHighway),
}


def unequal(groups: leanrnn.Groups) -> dict[str, list[int]]:
    """What stays: one component fewer in every further layer."""
    return {layer.name: list(range(layer.width - 1 - i % 3)) for i, layer in enumerate(groups)}


def gradients(model: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    """Those of the input and of every parameter, by one call."""
    x = x.clone().requires_grad_()
    wanted = [x, *(p for p in model.parameters() if p.requires_grad)]
    found = torch.autograd.grad(call(x).square().sum(), wanted, allow_unused=True)
    return [torch.zeros(()) if g is None else g for g in found]


def assert_alike(model: nn.Module, compiled: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-12, atol=1e-12)
    for one, other in zip(gradients(model, compiled, x), gradients(model, model, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_compiled_is_eager_before_and_after_a_cut(name: str) -> None:
    make, kind = MODELS[name]
    model, x = make().double(), torch.randn(TIME, BATCH, IN, dtype=torch.float64)
    assert_alike(model, torch.compile(model, backend="aot_eager"), x)
    groups = leanrnn.discover(model, x)
    small = leanrnn.shrink(model, groups, keep=unequal(groups))
    assert any(isinstance(module, kind) for module in small.modules()), small
    compiled = torch.compile(small, backend="aot_eager")
    assert_alike(small, compiled, x)
    assert_alike(small, compiled, torch.randn_like(x))


def dead(model: nn.Module, groups: leanrnn.Groups) -> None:
    """Zero the groups that are to leave, and the biases: what a norm reads has to be zero itself."""
    tensors = dict(model.named_parameters())
    stay = unequal(groups)
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name.startswith("rnn.bias"):
                tensor.zero_()
        for layer in groups:
            for k in set(range(layer.width)) - set(stay[layer.name]):
                for name, axis, index in layer.slices(k):
                    tensors[name].select(axis, index).zero_()


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTMCell", "LayerNorm", "RecurrentHighway"])
def test_a_compiled_model_goes_on_after_a_compaction(name: str) -> None:
    model = MODELS[name][0]().double()
    batches = torch.randn(3, TIME, BATCH, IN, dtype=torch.float64)
    groups = leanrnn.discover(model, batches[0])
    dead(model, groups)
    results = []
    for wrap in (lambda module: module, lambda module: torch.compile(module, backend="aot_eager")):
        torch.compiler.reset()
        ours, own = copy.deepcopy(model), leanrnn.discover(copy.deepcopy(model), batches[0])
        own.bind(ours)
        call, optimizer = wrap(ours), torch.optim.SGD(ours.parameters(), 0.1, momentum=0.9)
        sparsifier = leanrnn.Sparsifier(own, strength=0.0).attach(optimizer)
        losses = []
        for step, x in enumerate(batches):
            loss = call(x).square().mean()
            losses.append(loss.detach())
            optimizer.zero_grad()
            loss.backward()
            if step == 0:
                assert sparsifier.compact()
            optimizer.step()
        results.append((own.widths, torch.stack(losses)))
    (widths, eager), (others, compiled) = results
    assert widths == others != groups.widths
    torch.testing.assert_close(compiled, eager, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the compiler writes C++")
def test_compiled_to_machine_code() -> None:
    model, x = Reader(nn.LSTM(IN, H, num_layers=2)), torch.randn(TIME, BATCH, IN)
    groups = leanrnn.discover(model, x)
    small = leanrnn.shrink(model, groups, keep=unequal(groups))
    compiled = torch.compile(small)
    torch.testing.assert_close(compiled(x), small(x))
    for one, other in zip(gradients(small, compiled, x), gradients(small, small, x), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["LSTM in two directions", "GRU"])
def test_a_cut_model_is_exported_strictly(name: str) -> None:
    model, x = MODELS[name][0]().double(), torch.randn(TIME, BATCH, IN, dtype=torch.float64)
    groups = leanrnn.discover(model, x)
    small = leanrnn.shrink(model, groups, keep=unequal(groups))
    program = torch.export.export(small, (x,), strict=True)
    torch.testing.assert_close(program.module()(x), small(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_our_steps_are_taken_where_the_compiler_leaves_the_layer_alone(kind):
    model, x = Reader(kind(IN, H)), torch.randn(TIME, BATCH, IN)
    wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    steps = mock.Mock(side_effect=quick_steps)
    with layers.quick(), mock.patch.object(fused, "quick_steps", steps):
        answer = torch.compile(model, backend="eager")(x)
    assert steps.call_count == 1
    for one, other in zip(torch.autograd.grad(answer.sum(), list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(one, other)
