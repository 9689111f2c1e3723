"""Models of every kind become files: odd shapes, containers around tensors, lengths that cannot vary or must fit."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import leanrnn
from leanrnn.errors import ExportError

onnxruntime = pytest.importorskip("onnxruntime")


class Model(nn.Module):
    """A forward, and an LSTM for it to use."""

    def __init__(self, run: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.run, self.rnn = run, nn.LSTM(5, 7, batch_first=True)
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x, y=None):
        return self.run(self, x) if y is None else self.run(self, x, y)


def frames(batch: int = 2, time: int = 4) -> Tensor:
    return torch.randn(batch, time, 5)


def ran(written: Any, *inputs: Tensor) -> list[Tensor]:
    session = onnxruntime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    given = {name: tensor.numpy() for name, tensor in zip(written.inputs, inputs, strict=True)}
    return [torch.from_numpy(each) for each in session.run(list(written.outputs), given)]


FREE = {
    "squeeze_of_a_longer_axis": lambda m, x: m.rnn(x)[0].squeeze(-1),
    "squeeze_of_the_batch": lambda m, x: m.rnn(x)[0].squeeze(0),
    "squeeze_of_several": lambda m, x: m.rnn(x)[0][..., None].squeeze((1, -1)),
    "an_input_given_back": lambda m, x: (m.rnn(x)[0], x),
    "a_result_given_twice": lambda m, x: [m.rnn(x)[0]] * 2,
    "a_weight_given_back": lambda m, x: (m.rnn(x)[0], m.rnn.bias_hh_l0),
    "no_numbers": lambda m, x: m.rnn(x)[0].log(),
    "infinite": lambda m, x: m.rnn(x)[0].sign() / 0,
    "a_length_given_back": lambda m, x: (m.rnn(x)[0], x.size(1), None),
}


@pytest.mark.parametrize("name", FREE)
def test_results_of_every_kind_at_any_length(name, tmp_path):
    torch.manual_seed(0)
    model = Model(FREE[name]).eval()
    written = leanrnn.export(model, frames(), tmp_path / "m.onnx")
    assert written.inputs == {"x": ("batch", "time", 5)} and written.fixed == {}
    for x in (frames(1, 1), frames(1, 6), frames(5, 3)):
        expected = model(x)
        expected = [expected] if isinstance(expected, Tensor) else [t for t in expected if isinstance(t, Tensor)]
        for a, b in zip(expected, ran(written, x), strict=True):
            torch.testing.assert_close(b, a.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert leanrnn.quantize(written.path, seconds=0).path.exists()


def test_an_empty_input(tmp_path):
    model = Model(lambda m, x, y: torch.cat([m.rnn(x)[0].flatten(), y]))
    written = leanrnn.export(model, (frames(), torch.zeros(0)), tmp_path / "m.onnx")
    assert written.inputs == {"x": ("batch", "time", 5), "y": (0,)}


def table(m: Model, x: Tensor) -> Tensor:
    return m.rnn(x + m.places(torch.arange(x.size(1))))[0]


def chunked(m: Model, x: Tensor) -> Tensor:
    return m.rnn(x.reshape(x.size(0), x.size(1) // 4, 4, 5).sum(2))[0]


def test_lengths_as_the_model_has_them(tmp_path):
    model = Model(table, places=nn.Embedding(4, 5))  # has no more than four places
    assert leanrnn.export(model, frames(), tmp_path / "m.onnx").inputs["x"] == ("batch", "time", 5)
    written = leanrnn.export(Model(chunked).eval(), frames(2, 8), tmp_path / "m.onnx")  # multiples of four alone
    assert written.inputs["x"] == ("batch", "length", 5) and written.fixed == {}


def flattened(m: Model, x: Tensor) -> Tensor:
    return m.head(m.rnn(x)[0].flatten(1))


def growing(m: Model, x: Tensor) -> Tensor:
    return torch.stack([m.rnn(x[:, : t + 1])[0][:, -1] for t in range(x.size(1))], 1)


@pytest.mark.parametrize("run", [flattened, growing, lambda m, x: list(m.rnn(x)[0].unbind(1))])
def test_what_cannot_vary_is_fixed_and_told(run, tmp_path):
    model = Model(run, head=nn.Linear(28, 3)).eval()
    written = leanrnn.export(model, frames(), tmp_path / "m.onnx")
    assert written.inputs == {"x": ("batch", 4, 5)} and written.fixed == {"time": 4}
    expected = model(frames(6))
    assert len(ran(written, frames(6))) == (1 if isinstance(expected, Tensor) else 4)


def test_an_axis_without_a_name_is_told_by_its_place(tmp_path):
    written = leanrnn.export(
        Model(lambda m, x, y: m.rnn(x)[0] + y.reshape(-1, 1, 1)[: len(y)].sum()),
        (frames(), torch.randn(3)),
        tmp_path / "m.onnx",
    )
    assert written.inputs == {"x": ("batch", "time", 5), "y": (3,)} and written.fixed == {"y[0]": 3}


def at(m: Model, x: Tensor, y: Tensor) -> Tensor:
    return m.rnn(x)[0].gather(1, (y - 1).view(-1, 1, 1).expand(-1, 1, 7))


def below(m: Model, x: Tensor, y: Tensor) -> Tensor:
    mask = torch.arange(x.size(1)) < y[:, None]
    return (m.rnn(x)[0] * mask[..., None]).sum(1) / y[:, None]


def packed(m: Model, x: Tensor, y: Tensor) -> Tensor:
    hidden = m.rnn(pack_padded_sequence(x, y, batch_first=True, enforce_sorted=False))[0]
    return pad_packed_sequence(hidden, batch_first=True)[0] + x.sum(-1, keepdim=True)  # as long as the padding


def asking(m: Model, x: Tensor, y: Tensor) -> Tensor:
    hidden = m.rnn(pack_padded_sequence(x, y, batch_first=True, enforce_sorted=False))[0]
    padded = pad_packed_sequence(hidden, batch_first=True)[0]
    return padded if padded.size(1) == x.size(1) else 2 * padded


def masked(m: Model, x: Tensor, y: Tensor) -> Tensor:
    lengths = y.sum(1)
    hidden = m.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0]
    return pad_packed_sequence(hidden, batch_first=True, total_length=x.size(1))[0] * y.unsqueeze(-1)


def test_a_mask_fits_what_it_covers(tmp_path):
    model = Model(masked).eval()
    written = leanrnn.export(model, (frames(), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])), tmp_path / "m.onnx")
    assert written.inputs == {"x": ("batch", "time", 5), "y": ("batch", "time")} and written.fixed == {}


@pytest.mark.parametrize("run", [at, below, packed, asking])
def test_indices_and_lengths_fit_what_they_belong_to(run, tmp_path):
    model = Model(run).eval()
    written = leanrnn.export(model, (frames(), torch.tensor([4, 1])), tmp_path / "m.onnx")
    assert written.inputs == {"x": ("batch", "time", 5), "y": ("batch",)} and written.fixed == {}
    x, y = frames(3, 9), torch.tensor([9, 2, 5])
    torch.testing.assert_close(ran(written, x, y)[0], model(x, y).detach(), rtol=1e-4, atol=1e-5)
    full = "Give y so that the longest sequence is as long as the padding"
    assert [note[: len(full)] for note in written.notes] == ([full] if run is asking else [])
    assert leanrnn.deploy.metadata_of(written.path)["notes"] == list(written.notes)


@dataclasses.dataclass
class Scored:
    logits: Tensor
    state: tuple[Tensor, Tensor]
    count: int = 3
    loss: Tensor | None = None


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Ordered(OrderedDict):  # type: ignore[type-arg]
    """As the results of large libraries are: a mapping whose keys are attributes too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


RESULTS = {
    "dataclass": (lambda m, x: Scored(*m.rnn(x)), ("logits", "state_0", "state_1")),
    "dict": (lambda m, x: {"y": m.rnn(x)[0], "x": x}, ("y", "x_out")),
    "mapping": (lambda m, x: Ordered(last=m.rnn(x)[0], loss=None, all=(x, [x])), ("last", "all_0", "all_1_0")),
    "named_tuple": (lambda m, x: Pair(m.rnn(x)[0], x.mean()), ("first", "second")),
    "nested": (lambda m, x: (m.rnn(x)[0], {"linear": [x, 2.0, None]}), ("output_0", "output_1_linear_0")),
    "plain": (lambda m, x: m.rnn(x), ("output_0", "output_1", "output_2")),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_in_containers(name, tmp_path):
    run, names = RESULTS[name]
    written = leanrnn.export(Model(run), frames(), tmp_path / "m.onnx")
    assert written.outputs == names and written.inputs == {"x": ("batch", "time", 5)}
    assert len(ran(written, frames(3, 7))) == len(names)
    assert leanrnn.quantize(written.path, seconds=0).difference < 0.1


def scaled(m: Model, given: Any) -> Tensor:
    if isinstance(given, dict):
        return m.rnn(given["x"] * given["by"], (given["state"][0], given["state"][1]))[0]
    return m.rnn(given.x * given.by, tuple(given.state))[0]


@dataclasses.dataclass(frozen=True)
class Given:
    x: Tensor
    state: list[Tensor]
    by: float = 2.0


def state() -> list[Tensor]:
    return [torch.randn(1, 2, 7), torch.randn(1, 2, 7)]


@pytest.mark.parametrize("kind", [dict, Ordered, Given])
def test_inputs_in_containers(kind, tmp_path):
    x, (h, c) = frames(), state()
    example = kind(x=x, state=[h, c], by=3.0)
    model = Model(scaled).eval()
    written = leanrnn.export(model, (example,), tmp_path / "m.onnx")
    named = {"x_x": ("batch", "time", 5), "x_state_0": (1, "batch", 7), "x_state_1": (1, "batch", 7)}
    assert written.inputs == named
    torch.testing.assert_close(ran(written, x, h, c)[0], model(example).detach(), rtol=1e-4, atol=1e-5)


def test_a_program_of_torch_with_containers_of_others_takes_tensors(tmp_path):
    model = Model(lambda m, x: Scored(*m.rnn(x))).eval()
    written = leanrnn.export(model, frames(), tmp_path / "m.pt2")
    assert written.fixed == {"time": 4}
    found = torch.export.load(written.path).module()(frames(1))
    assert [tuple(each.shape) for each in found] == [(1, 4, 7), (1, 1, 7), (1, 1, 7)]


def bad(m: Model, x: Tensor) -> Tensor:
    if x.mean() > 100:
        return x
    return m.rnn(x)[0]


def unknown(m: Model, x: Tensor) -> Tensor:
    return m.rnn(torch.from_numpy(x.numpy()))[0]


def counted(m: Model, x: Tensor, graph: Tensor) -> Tensor:
    groups = x.new_zeros(int(graph.max()) + 1, 5)
    return groups.index_add(0, graph, m.rnn(x)[0][:, -1, :5])


def steps_of_packed(m: Model, x: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return torch.split(packed.data, packed.batch_sizes.tolist())[0]


def sampled(m: Model, x: Tensor) -> Tensor:
    return torch.distributions.StudentT(m.rnn(x)[0].exp() + 1, validate_args=False).sample()


REFUSED = [
    (bad, frames(), r"at .*test_export_kinds.py:\d+, in bad depends on values that only a run knows"),
    (unknown, frames(), r"cannot be traced as a graph at .*test_export_kinds.py:\d+, in unknown: "),
    (lambda m, x: m.rnn(x)[0] + torch.rand(7), frames(), r"draws random numbers at .*kinds.py:\d+, in .*\(aten.rand\)"),
    (counted, (frames(), torch.tensor([3, 3])), r"in counted depends on values that only a run knows \(int\(\), "),
    (steps_of_packed, (frames(), torch.tensor([4, 2])), r"splits a tensor at .*kinds.py:\d+, in steps_of_packed"),
    (sampled, frames(), r"draws random numbers at .*kinds.py:\d+, in .*\(aten"),
    (lambda m, x: 3, frames(), "returns no tensor but int"),
    (lambda m, x: pack_padded_sequence(x, torch.tensor([4, 1]), True), frames(), "returns a packed sequence"),
    (lambda m, x: m.rnn(x.real)[0], frames().to(torch.complex64), "view_as_real"),
    (lambda m, x: m.rnn(frames())[0], (3,), "holds no tensor"),
]


@pytest.mark.parametrize(("run", "example", "message"), REFUSED)
def test_refusals_are_one_sentence_and_leave_nothing(run, example, message, tmp_path, capfd):
    with pytest.raises(ExportError, match=message) as error:
        leanrnn.export(Model(run), example, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr() == ("", "")
    assert run in (bad, counted, steps_of_packed) or "only a run knows" not in str(error.value)


def test_names_given_twice(tmp_path):
    with pytest.raises(ExportError, match="names 'x' twice, or as an input is called"):
        leanrnn.export(Model(lambda m, x: m.rnn(x)[0]), frames(), tmp_path / "m.onnx", outputs=["x"])
