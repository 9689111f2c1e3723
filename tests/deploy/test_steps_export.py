"""Models exported as steps: their states have names, and ten steps fed one by one are the whole sequence."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.deploy import metadata_of
from leanrnn.deploy.carried import Carried, places_of
from leanrnn.deploy.program import trace
from leanrnn.deploy.streaming import Stream
from leanrnn.errors import ExportError
from leanrnn.running.steps import pairs_of


class Sequence(nn.Module):
    """Any number of steps, with a state in and out."""

    def __init__(self, cls: type[nn.RNNBase] = nn.LSTM, **options: object) -> None:
        super().__init__()
        self.rnn = cls(4, 6, **options)
        self.head = nn.Linear(12 if self.rnn.bidirectional else 6, 3)

    def forward(self, x, state=None):
        y, state = self.rnn(x, state)
        return self.head(y), state


class Step(nn.Module):
    """One step of a cell: its state is handed in and returned, in the way that ``form`` says."""

    def __init__(self, form: str = "tuple") -> None:
        super().__init__()
        self.form, self.head = form, nn.Linear(6, 3)
        self.cell = nn.GRUCell(4, 6) if form == "open" else nn.LSTMCell(4, 6)

    def forward(self, x, state=None):
        if self.form == "dict":
            h, c = self.cell(x, (state["h"], state["c"]))
            return {"y": self.head(h), "state": {"c": c, "h": h}}
        state = self.cell(x, state)
        return self.head(state if self.form == "open" else state[0]), state


class Kept(nn.Module):
    """One step of a cell that keeps its state itself: in an attribute, in a buffer, or in a pair in a module inside."""

    def __init__(self, where: str, first: float = 0.0) -> None:
        super().__init__()
        self.cell, self.head, self.where, self.first = nn.LSTMCell(4, 6), nn.Linear(6, 3), where, first
        self.seen, self.h, self.pair = None, None, None
        if where == "buffer":
            self.register_buffer("both", torch.zeros(2, 2, 6))

    def forward(self, x):
        zeros = x.new_full((x.size(0), 6), self.first)
        if self.where == "buffer":
            h, c = self.cell(x, (self.both[0], self.both[1]))
            self.both.copy_(torch.stack([h, c]))
        else:
            h, c = self.cell(x, self.pair or (zeros, zeros))
            self.pair = (h, c)
        self.seen = h * 2  # nobody reads it
        return self.head(h)


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).tanh()


def streamed(path: Path, steps: list[torch.Tensor]) -> list[np.ndarray]:
    """First outputs of calls that feed states back by what the file says of itself, beginning with zeros."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    pairs, batch = metadata_of(path)["states"], steps[0].shape[-2]
    first, *rest = session.get_inputs()
    carried = {
        each.name: np.zeros([n if isinstance(n, int) else batch for n in each.shape], np.float32) for each in rest
    }
    found = []
    for x in steps:
        outputs = session.run(None, {first.name: x.numpy(), **carried})
        by_name = dict(zip([each.name for each in session.get_outputs()], outputs, strict=True))
        carried = {name: by_name[out] for name, out in pairs.items()}
        found.append(outputs[0])
    return found


@pytest.mark.parametrize(
    ("cls", "options"),
    [(nn.LSTM, {"num_layers": 2}), (nn.GRU, {"num_layers": 2}), (nn.RNN, {"nonlinearity": "relu"})],
)
def test_sequences_have_named_states(tmp_path, cls, options):
    model, x = Sequence(cls, **options).eval(), torch.randn(10, 2, 4)
    written = leanrnn.export(model, (x, model(x)[1]), tmp_path / "m.onnx")
    parts = ["state_0", "state_1"] if cls is nn.LSTM else ["state"]
    assert written.states == {name: f"{name}_out" for name in parts} == metadata_of(written.path)["states"]
    assert list(written.inputs) == ["x", *parts] and written.outputs[1:] == tuple(written.states.values())
    found = np.concatenate(streamed(written.path, list(x.split(1))))
    np.testing.assert_allclose(found, model(x)[0].detach(), rtol=1e-4, atol=1e-5)


def test_layers_of_unequal_widths_after_a_cut(tmp_path):
    model, x = Sequence(num_layers=2), torch.randn(10, 2, 4)
    widths = {"rnn.l0": 4, "rnn.l1": 3}
    small = leanrnn.shrink(model, leanrnn.discover(model, x), keep_widths=widths).eval()
    written = leanrnn.export(small, (x, small(x)[1]), tmp_path / "m.onnx", outputs=["y", "h0", "h1", "c0", "c1"])
    assert written.states == {"state_0_0": "h0", "state_0_1": "h1", "state_1_0": "c0", "state_1_1": "c1"}
    found = np.concatenate(streamed(written.path, list(x.split(1))))
    np.testing.assert_allclose(found, small(x)[0].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["tuple", "dict", "open"])
def test_cells_that_take_one_step(tmp_path, form):
    model, xs = Step(form).eval(), torch.randn(10, 2, 4)
    zero = torch.zeros(2, 6)
    example = {"tuple": (xs[0], (zero, zero)), "dict": (xs[0], {"h": zero, "c": zero}), "open": xs[0]}[form]
    written = leanrnn.export(model, example, tmp_path / "m.onnx")
    wanted, state = [], None if form == "open" else example[1]
    for x in xs:
        answer = model(x, state)
        y, state = answer.values() if form == "dict" else answer
        wanted.append(y.detach())
    assert len(written.states) == (1 if form == "open" else 2)
    np.testing.assert_allclose(streamed(written.path, list(xs)), torch.stack(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (Kept("buffer"), ["both"]),
        (Kept("pair"), ["pair_0", "pair_1"]),
        (Outer(Kept("pair")), ["inner_pair_0", "inner_pair_1"]),
    ],
    ids=["buffer", "pair", "module inside"],
)
def test_states_kept_by_the_model_are_lifted_out(tmp_path, model, names):
    model.eval()
    xs, kept = torch.randn(10, 2, 4), list(model.state_dict())
    written = leanrnn.export(model, xs[0], tmp_path / "m.onnx")
    assert written.states == {name: f"{name}_out" for name in names} and len(written.outputs) == 1 + len(names)
    assert "forward" not in vars(model) and list(model.state_dict()) == kept
    wanted = torch.stack([model(x).detach() for x in xs])  # from zeros: the export has left no state behind
    np.testing.assert_allclose(streamed(written.path, list(xs)), wanted, rtol=1e-4, atol=1e-5)


def test_first_state_that_is_not_zero_is_told(tmp_path):
    with pytest.raises(ExportError, match=r"a state in self.pair.0 and self.pair.1 that does not begin with zeros"):
        leanrnn.export(Kept("pair", first=0.5), torch.randn(2, 4), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_models_cut_in_steps_export_as_steps(tmp_path):
    model, x = Step("open"), torch.randn(2, 4)
    groups = leanrnn.discover(model, x)
    small = leanrnn.shrink(model, groups, keep_widths={"cell": 4})
    written = leanrnn.export(small, groups.example, tmp_path / "m.onnx")
    assert written.inputs["state"][-1] == 4 and written.states == {"state": "state_out"}


def test_states_by_name(tmp_path):
    model, x = Sequence(nn.GRU), torch.randn(5, 2, 4)
    assert leanrnn.export(model, x, tmp_path / "m.onnx").states == {}  # sequences that begin with zeros
    written = leanrnn.export(model, x, tmp_path / "m.onnx", states={"state": 1})
    assert written.states == {"state": "state_out"} and written.inputs["state"] == (1, "batch", 6)
    given = x, torch.zeros(1, 2, 6)
    assert leanrnn.export(model, given, tmp_path / "m.onnx", states={}).states == {}
    with pytest.raises(ExportError, match=r"no 'hidden'. It has x, state"):
        leanrnn.export(model, given, tmp_path / "m.onnx", states={"hidden": 1})
    with pytest.raises(ExportError, match=r"goes in as \(1, 2, 6\) and comes out as \(5, 2, 3\)"):
        leanrnn.export(model, given, tmp_path / "m.onnx", states={"state": 0})


def test_layers_that_read_backwards_have_no_states_to_feed(tmp_path):
    model, x = Sequence(nn.GRU, bidirectional=True), torch.randn(5, 2, 4)
    written = leanrnn.export(model, (x, torch.zeros(2, 2, 6)), tmp_path / "m.onnx")
    assert written.states == {} and written.outputs == ("output_0", "output_1")


def test_states_that_are_mixed_up_are_seen():
    model, x = Sequence().eval(), torch.randn(5, 2, 4)
    example = x, (torch.zeros(1, 2, 6), torch.zeros(1, 2, 6))
    program = trace(model, example)
    assert places_of(model, Carried(example, ((1, (1,)),))) == ((1, 1), (2, 2))
    right, wrong = (Stream(model, program, pairs, True) for pairs in (((1, 1), (2, 2)), ((1, 2), (2, 1))))
    assert not right.broken() and "differ" in wrong.broken()
    with pytest.raises(ExportError, match="fed 10 steps one by one, y of the written file differs"):
        wrong.check(wrong._called, ["y", "h", "c"])


def test_pairs_when_nothing_but_states_comes_back():
    x, h, c = torch.zeros(2, 4), torch.zeros(2, 6), torch.zeros(2, 6)
    assert pairs_of((x, h, c), (h, c)) == ((1, (0,)), (2, (1,)))
    assert pairs_of((x, (h, c)), (h, c)) == ((1, ()),)
    assert pairs_of((x, h, c), (x, (h, c))) == ((1, (1, 0)), (2, (1, 1)))
