"""Models that take one step at a call: what several of them show is found, cut and compared."""

import copy

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import DiscoveryError
from leanrnn.running.compare import difference
from leanrnn.running.steps import Steps
from leanrnn.surgery.zeroing import zero_


class Returned(nn.Module):
    """A policy that sees one observation; its state is an input that is left open."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        state = self.cell(x, state)
        return self.head(state), state


class Stacked(nn.Module):
    """A streaming model of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 6, 2), nn.Linear(6, 3)

    def forward(self, x: Tensor, hidden=None):
        out, hidden = self.rnn(x.unsqueeze(0), hidden)
        return self.head(out[0]), hidden


class Kept(nn.Module):
    """A cell that keeps its state itself."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(4, 6), nn.Linear(6, 3)
        self.state = None

    def forward(self, x: Tensor) -> Tensor:
        self.state = self.cell(x, self.state)
        return self.head(self.state[0])


class Predictor(nn.Module):
    """Of a transducer: a token and a state, a mapping comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(9, 5), nn.LSTM(5, 6), nn.Linear(6, 3)

    def forward(self, tokens: Tensor, *, state=None) -> dict:
        out, state = self.rnn(self.embedding(tokens), state)
        return {"scores": self.head(out), "state": state}


class Raw(nn.Module):
    """A cell of matrices alone."""

    def __init__(self) -> None:
        super().__init__()
        self.i, self.h, self.o = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        before = x.new_zeros(len(x), self.h.out_features) if h is None else h
        h = torch.tanh(self.i(x) + self.h(before))
        return self.o(h), h


MODELS = {
    "returned": (Returned, torch.randn(2, 4), {"cell": 6}),
    "stacked": (Stacked, torch.randn(2, 4), {"rnn.l0": 6, "rnn.l1": 6}),
    "kept": (Kept, torch.randn(2, 4), {"cell": 6}),
    "predictor": (Predictor, torch.zeros(1, 2, dtype=torch.long), {"rnn.l0": 6}),
    "raw": (Raw, {"x": torch.randn(2, 4)}, {"h": 6}),
}


def played(model: nn.Module, inputs: list, feed) -> list[Tensor]:
    """The results of a stream, the state handed on as a user would."""
    found, state = [], None
    for x in inputs:
        given = {} if state is None else {feed[0][0]: state}
        result = model(**x, **given) if isinstance(x, dict) else model(x, **given)
        parts = list(result.values()) if isinstance(result, dict) else result
        found.append(parts[0] if feed else parts)
        state = parts[1] if feed else None
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scope", ["recurrent", "all"])
def test_one_step_is_enough(name, scope):
    make, example, widths = MODELS[name]
    model = make().double()
    cast = lambda t: t.double() if t.is_floating_point() else t  # noqa: E731
    example = {k: cast(v) for k, v in example.items()} if isinstance(example, dict) else cast(example)
    groups = leanrnn.discover(model, example, scope=scope)
    assert widths.items() <= groups.widths.items() and isinstance(groups.example, Steps)
    keep = {layer.name: list(range(0, layer.width, 2)) for layer in groups}
    zero = make().double()
    zero.load_state_dict(model.state_dict())
    zero_(zero, groups, groups.keep_mask(keep))
    small = leanrnn.shrink(model, groups, keep=keep)
    with torch.no_grad():
        feed = groups.example.feed
        one, other = played(zero, [example] * 10, feed), played(small, [example] * 10, feed)
        assert difference(one, other) < 1e-12 and difference(one[:1], one[1:2]) > 1e-3


def test_a_model_without_a_state_has_none_after_many_steps():
    with pytest.raises(DiscoveryError, match="no recurrent width"):
        leanrnn.discover(nn.Linear(4, 3), torch.randn(2, 4))


def test_mult_adds_are_those_of_one_call():
    model = Returned()
    groups = leanrnn.discover(model, torch.randn(2, 4))
    assert leanrnn.shrink(model, groups, ratio=0.5).cell.hidden_size == 3
    assert isinstance(groups.example, Steps) and groups.example.count == 3


class Folded(nn.Module):
    """Steps far apart are folded into the batch, as dilated networks do: a short example leaves the second layer one
    step."""

    def __init__(self, kind: type[nn.RNNBase], **more) -> None:
        super().__init__()
        self.near, self.far = nn.GRU(4, 7), kind(7, 6, **more)
        self.head = nn.Linear(self.far.proj_size or 6 * (1 + self.far.bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.near(x)[0]
        return self.head(self.far(x.reshape(len(x) // 4, -1, x.size(-1)))[0])


class Once(nn.Module):
    """A cell that is called once, and whose state is returned; there is no way to hand it in."""

    def __init__(self, kind: type[nn.RNNCellBase]) -> None:
        super().__init__()
        self.cell, self.head = kind(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple:
        state = self.cell(x)
        return self.head(state[0] if isinstance(state, tuple) else state), state


class Last(nn.Module):
    """One layer and its last output."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn, self.head = kind(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][-1])


def halved(model: nn.Module, groups) -> tuple[nn.Module, nn.Module]:
    """The model with every second component zeroed, and with it cut."""
    keep = {layer.name: list(range(0, layer.width, 2)) for layer in groups}
    zero = copy.deepcopy(model)
    zero_(zero, groups, groups.keep_mask(keep))
    return zero, leanrnn.shrink(model, groups, keep=keep)


@pytest.mark.parametrize(
    ("kind", "more"),
    [(nn.LSTM, {}), (nn.GRU, {}), (nn.RNN, {}), (nn.LSTM, {"bidirectional": True}), (nn.LSTM, {"proj_size": 4})],
)
def test_a_layer_that_takes_one_step_is_cut_for_longer_inputs_too(kind, more):
    model = Folded(kind, **more).double()
    groups = leanrnn.discover(model, torch.randn(4, 2, 4).double())
    assert groups["near.l0"].width == 7 and not groups.pinned
    zero, small = halved(model, groups)
    assert small.far.weight_hh_l0.shape == (model.far.weight_hh_l0.shape[0] // 2, more.get("proj_size", 6) // 2)
    x = torch.randn(16, 2, 4).double()
    with torch.no_grad():
        assert torch.allclose(small(x), zero(x), atol=1e-12) and not torch.allclose(zero(x), model(x), atol=1e-3)
    assert "far." in "".join(groups.notes) and "longer example" in groups.notes[-1]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("scope", ["recurrent", "all"])
def test_an_example_of_one_step_is_enough_for_a_layer(kind, scope):
    model = Last(kind).double()
    groups = leanrnn.discover(model, torch.randn(1, 2, 4).double(), scope=scope)
    assert groups.widths == {"rnn.l0": 6} and not groups.pinned
    zero, small = halved(model, groups)
    x = torch.randn(5, 2, 4).double()
    with torch.no_grad():
        assert torch.allclose(small(x), zero(x), atol=1e-12)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_cell_called_once_returns_its_state_narrower(kind):
    model = Once(kind).double()
    groups = leanrnn.discover(model, torch.randn(2, 4).double())
    assert groups.widths == {"cell": 6}
    zero, small = halved(model, groups)
    assert small.cell.weight_hh.shape == (model.cell.weight_hh.shape[0] // 2, 3) and small.cell.hidden_size == 3
    x = torch.randn(2, 4).double()
    with torch.no_grad():
        one, other = (m.cell(x, m.cell(x)) for m in (zero, small))
        one, other = (m.head(h[0] if isinstance(h, tuple) else h) for m, h in ((zero, one), (small, other)))
    assert torch.allclose(one, other, atol=1e-12)


def test_a_note_only_where_one_step_is_all_there_is():
    model = Folded(nn.GRU)
    assert not leanrnn.discover(model, torch.randn(8, 2, 4)).notes
