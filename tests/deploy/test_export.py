"""Exported files: run by onnxruntime at lengths nobody traced, in pieces, of unequal widths; mistakes leave nothing."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import leanrnn
from leanrnn.deploy import operators
from leanrnn.errors import ExportError
from leanrnn.lab.language.model import LanguageModel


class Tagger(nn.Module):
    """Words, a recurrence with a state that comes in and goes out, and a layer on top."""

    def __init__(self, cls: type[nn.RNNBase] = nn.LSTM, **options: object) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 6)
        self.rnn = cls(6, 8, **options)
        self.head = nn.Linear(16 if self.rnn.bidirectional else 8, 4)

    def forward(self, words, state=None):
        hidden, state = self.rnn(self.words(words), state)
        return self.head(hidden), state


class Packed(Tagger):
    """Reads padded sequences as long as they are."""

    def forward(self, words, lengths):
        x = pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
        hidden, state = self.rnn(x)
        return self.head(pad_packed_sequence(hidden, batch_first=True)[0]), state


def words(*shape: int) -> torch.Tensor:
    return torch.randint(30, shape)


def run(path: Path, *inputs: torch.Tensor) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return session.run(None, {n: each.numpy() for n, each in zip(names, inputs, strict=True)})


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
        (nn.GRU, {"num_layers": 2, "bidirectional": True}),
        (nn.RNN, {"batch_first": True, "nonlinearity": "tanh"}),
        (nn.RNN, {"num_layers": 2, "bidirectional": True, "nonlinearity": "relu", "bias": False}),
    ],
)
def test_batch_and_time_have_any_length(tmp_path, cls, options):
    torch.manual_seed(0)
    model = Tagger(cls, **options)
    written = leanrnn.export(model, words(5, 3), tmp_path / "m.onnx")
    axes = ("batch", "time") if options.get("batch_first") else ("time", "batch")
    assert written.inputs == {"words": axes} and written.difference < 1e-5
    assert kinds(written.path).count(model.rnn.mode.split("_")[0]) == len(model.rnn.all_weights)
    assert {"Loop", "Scan", "Split"}.isdisjoint(kinds(written.path))
    for example in (words(1, 1), words(2, 9), words(13, 4)):
        expected = model.eval()(example)[0].detach()
        torch.testing.assert_close(torch.from_numpy(run(written.path, example)[0]), expected, rtol=1e-4, atol=1e-5)


def test_a_stream_in_pieces_is_the_whole(tmp_path):
    model = LanguageModel(30, 6, (8, 5)).eval()
    state = [(torch.zeros(1, 1, n), torch.zeros(1, 1, n)) for n in (8, 5)]
    names = ["scores", "h0", "c0", "h1", "c1"]
    written = leanrnn.export(model, (words(1, 1), state), tmp_path / "m.onnx", outputs=names)
    assert written.outputs == tuple(names) and written.inputs["state_1_0"] == (1, "batch", 5)
    assert kinds(written.path) == ["Gather", "LSTM", "Squeeze", "LSTM", "Squeeze", "MatMul", "Add"]
    text = words(12, 2)
    whole = model(text)[0].detach().numpy()
    found, carried = [], [torch.zeros(1, 2, n) for n in (8, 8, 5, 5)]
    for piece in text.split([1, 4, 2, 5]):
        scores, *after = run(written.path, piece, *carried)
        found.append(scores)
        carried = [torch.from_numpy(each) for each in after]
    np.testing.assert_allclose(np.concatenate(found), whole, rtol=1e-4, atol=1e-5)


def test_shrunk_models_of_unequal_widths(tmp_path):
    model, example = Tagger(num_layers=2, bidirectional=True), words(5, 3)
    groups = leanrnn.discover(model, example)
    widths = {"rnn.l0": 3, "rnn.l0_reverse": 5, "rnn.l1": 4, "rnn.l1_reverse": 6}
    small = leanrnn.shrink(model, groups, keep_widths=widths)
    state = small(example)[1]
    written = leanrnn.export(small, (example, state), tmp_path / "m.onnx", about={"language": "en"})
    assert [shape[-1] for shape in list(written.inputs.values())[1:]] == [3, 5, 4, 6] * 2
    file = onnx.load(written.path)
    said = json.loads({each.key: each.value for each in file.metadata_props}["leanrnn"])
    assert said["version"] == leanrnn.__version__ and said["widths"] == {"rnn": [3, 5, 4, 6]}
    assert said["about"] == {"language": "en"} and said["plan"]
    assert {"rnn/LSTM/W", "rnn/LSTM_reverse/R"} <= {each.name for each in file.graph.initializer}


def test_packed_sequences_are_lengths(tmp_path):
    model = Packed(num_layers=2, bidirectional=True, batch_first=True).eval()
    written = leanrnn.export(model, (words(3, 5), torch.tensor([5, 2, 3])), tmp_path / "m.onnx")
    assert written.inputs == {"words": ("batch", "time"), "lengths": ("batch",)}
    example = words(4, 9), torch.tensor([2, 7, 1, 4])  # the longest is shorter than the padding
    scores, (h, c) = model(*example)
    for found, expected in zip(run(written.path, *example), (scores, h, c), strict=True):
        torch.testing.assert_close(torch.from_numpy(found), expected.detach(), rtol=1e-4, atol=1e-5)


class Cell(nn.Module):
    """A home-made cell, stepped by torch's scan, or by Python in a way that knows the step."""

    def __init__(self, looped: bool) -> None:
        super().__init__()
        self.cell, self.head, self.looped = nn.Linear(11, 6), nn.Linear(6, 2), looped

    def forward(self, x):
        def step(h, x):
            h = torch.tanh(self.cell(torch.cat([x, h], dim=-1)))
            return h, h.clone()

        h = x.new_zeros(x.size(1), 6)
        if not self.looped:
            return self.head(scan(step, h, x)[1])
        outputs = []
        for i, each in enumerate(x):
            h, y = step(h / (i + 1), each)
            outputs.append(y)
        return self.head(torch.stack(outputs))


def test_cells_through_scan(tmp_path):
    written = leanrnn.export(Cell(looped=False), torch.randn(4, 3, 5), tmp_path / "m.onnx")
    assert "Scan" in kinds(written.path) and written.nodes < 10


def test_a_loop_that_knows_its_step_is_fixed_and_told(tmp_path):
    written = leanrnn.export(Cell(looped=True), torch.randn(4, 3, 5), tmp_path / "m.onnx")
    assert written.inputs == {"x": (4, "length", 5)} and written.fixed == {"time": 4}
    assert leanrnn.deploy.metadata_of(written.path)["fixed"] == {"time": 4}


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(5, 7)

    def forward(self, x):
        y = self.rnn(x)[0].transpose(0, 1)
        return torch.linalg.eigvals(y @ y.mT).real


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (Odd(), torch.randn(4, 3, 5), r"no counterpart for aten.linalg_eig.* at .*test_export.py:\d+, in forward"),
        (nn.LSTM(5, 7, proj_size=3), torch.randn(4, 3, 5), "proj_size=3, which ONNX has no operator for"),
        (nn.LSTM(5, 7), torch.randn(4, 3, 6), "forward raised .*Expected 5, got 6"),
        (nn.LSTM(5, 7).double(), torch.randn(4, 3, 5).double(), "weights of torch.float64"),
    ],
)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_mistakes_leave_no_file(tmp_path, model, example, message):
    with pytest.raises(ExportError, match=message):
        leanrnn.export(model, example, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == [] and model.training


def test_a_file_that_differs_is_not_kept(tmp_path, monkeypatch):
    from leanrnn.deploy.formats.onnx import translate

    monkeypatch.setitem(translate.ORDER, "LSTM", (0, 1, 2, 3))
    (tmp_path / "m.onnx").write_text("what was there")
    with pytest.raises(ExportError, match="output_0 of the written file differs by"):
        leanrnn.export(nn.LSTM(5, 7), torch.randn(4, 3, 5), tmp_path / "m.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there"]


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("lengths", [None, torch.tensor([4, 6, 2])])
def test_operators_compute_what_torch_computes(cls, lengths):
    model = cls(5, 7, bidirectional=True).double()
    x, parts = torch.randn(6, 3, 5).double(), 2 if cls is nn.LSTM else 1
    if lengths is None:
        expected, state = model(x)
    else:
        packed, state = model(pack_padded_sequence(x, lengths, enforce_sorted=False))
        expected = pad_packed_sequence(packed)[0]
    operator = {nn.LSTM: operators.lstm, nn.GRU: operators.gru, nn.RNN: operators.rnn}[cls]
    more = ("tanh",) if cls is nn.RNN else ()
    found = [
        operator(x, *[None] * parts, *model.all_weights[i], lengths, i == 1, *more) for i in range(2)
    ]  # a direction each
    torch.testing.assert_close(torch.cat([each[0] for each in found], dim=-1), expected)
    h = state[0] if parts == 2 else state
    torch.testing.assert_close(torch.cat([each[1] for each in found]), h)


def test_eight_bits(tmp_path):
    model = LanguageModel(300, 40, (64, 48)).eval()
    written = leanrnn.export(model, torch.randint(300, (5, 3)), tmp_path / "m.onnx", outputs=["scores", *"abcd"])
    small = leanrnn.quantize(written.path, evaluate=lambda path: float(path.stat().st_size))
    assert (
        small.path == tmp_path / "m.int8.onnx"
        and small.float_nodes == ()
        and "DynamicQuantizeLSTM" in kinds(small.path)
    )
    assert small.bytes_after < small.bytes_before / 3 and 0 < small.difference < 0.1
    assert (small.before, small.after) == (small.bytes_before, small.bytes_after)
    said = {each.key for each in onnx.load(small.path).metadata_props}
    assert "leanrnn" in said and sorted(tmp_path.iterdir()) == [small.path, written.path]


@pytest.mark.parametrize("steps", [1, 6])
def test_a_program_of_torch_has_any_batch_and_its_own_steps(tmp_path, steps):
    model = Tagger(num_layers=2, bidirectional=True)
    widths = {"rnn.l0": 3, "rnn.l0_reverse": 5, "rnn.l1": 4, "rnn.l1_reverse": 6}
    small = leanrnn.shrink(model, leanrnn.discover(model, words(5, 3)), keep_widths=widths).eval()
    written = leanrnn.export(small, words(steps, 1), tmp_path / "m.pt2", about={"language": "en"})
    assert written.inputs == {"words": (steps, "batch")} and written.difference < 1e-6
    said = {"leanrnn.json": ""}
    program = torch.export.load(written.path, extra_files=said).module()
    assert json.loads(said["leanrnn.json"])["widths"] == {"rnn": [3, 5, 4, 6]}
    for batch in (1, 4, 9):
        example = words(steps, batch)
        torch.testing.assert_close(program(example)[0], small(example)[0])
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt2"]


@pytest.mark.parametrize("opset", [17, 25])
def test_versions_of_the_operators(tmp_path, opset):
    written = leanrnn.export(Tagger(nn.GRU), words(5, 3), tmp_path / "m.onnx", opset=opset)
    assert {each.domain: each.version for each in onnx.load(written.path).opset_import}[""] == opset


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [("m.onnx", {"opset": 7}, "opset is 7. Give one from 17"), ("m.tflite", {}, "neither .onnx nor .pt2")],
)
def test_kinds_of_files_there_are(tmp_path, name, options, message):
    with pytest.raises(ExportError, match=message):
        leanrnn.export(Tagger(), words(5, 3), tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU])
def test_weights_alone_in_bytes_run_in_openvino_too(tmp_path, cls):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(200, 40), cls(40, 90, num_layers=2)).eval()
    written = leanrnn.export(model, torch.randint(200, (5, 3)), tmp_path / "m.onnx")
    small = leanrnn.quantize(written.path, weights_only=True)
    assert small.bytes_after < small.bytes_before / 3 and 0 < small.difference < 0.01
    example = torch.randint(200, (9, 2))
    expected = model(example)[0].detach().numpy()
    for path, apart in ((written.path, 1e-5), (small.path, 0.02)):
        found = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([example.numpy()])
        assert np.abs(found[0] - expected).max() < apart * np.abs(expected).max()


def test_equal_weights_and_a_layer_that_runs_twice_are_quantised(tmp_path):
    model = LanguageModel(30, 1, (1, 1))
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)  # equal weights are one tensor of the file, which its quantiser does not expect
    written = leanrnn.export(model, words(5, 3), tmp_path / "m.onnx")
    assert leanrnn.quantize(written.path).difference == 0.0
    assert leanrnn.quantize(written.path, weights_only=True).difference == 0.0

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(6, 6)

        def forward(self, x):
            return self.rnn(self.rnn(x)[0])[0]

    written = leanrnn.export(Twice(), torch.randn(5, 3, 6), tmp_path / "twice.onnx")
    small = leanrnn.quantize(written.path)
    assert small.float_nodes == () and 0 < small.difference < 0.1


def test_a_file_that_does_not_run_in_eight_bits(tmp_path, monkeypatch):
    written = leanrnn.export(LanguageModel(30, 2, (2,)), words(5, 3), tmp_path / "m.onnx")
    monkeypatch.setattr(
        "leanrnn.deploy.formats.onnx.int8.to_int8", lambda source, target, reduce_range: target.write_text("no")
    )
    with pytest.raises(ExportError, match=r"in eight bits: .*weights_only=True"):
        leanrnn.quantize(written.path)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_files_that_cannot_be_quantised(tmp_path):
    with pytest.raises(ExportError, match="there is no file"):
        leanrnn.quantize(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(ExportError, match=r"damaged or no ONNX file|was not written by leanrnn"):
        leanrnn.quantize(tmp_path / "text.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["text.onnx"]
