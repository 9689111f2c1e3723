"""Files in eight bits: heads of every kind, cells that compute with bytes, and how fast they are."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import leanrnn
from leanrnn.cli.main import main
from leanrnn.deploy import Speed, far_apart, is_noisy, times_faster
from leanrnn.deploy.formats.onnx.int8 import nodes_of
from leanrnn.deploy.formats.onnx.steps import to_steps
from leanrnn.deploy.runtimes import session

HEADS = {
    "sequence": lambda y, h: y,
    "mean": lambda y, h: y.mean(0),
    "max": lambda y, h: y.max(0).values,
    "last": lambda y, h: y[-1],
    "h_n": lambda y, h: h.transpose(0, 1).flatten(1),
    "attention": lambda y, h: (torch.softmax(y.sum(-1, keepdim=True), 0) * y).sum(0),
}


class Headed(nn.Module):
    """A recurrent layer, what one makes of its steps, and a layer on top; several inputs are read one by one."""

    def __init__(self, cls: type[nn.RNNBase], head: str, outputs: int, inputs: int = 1, deep: bool = False) -> None:
        super().__init__()
        self.rnn, self.summarise = cls(6, 4, bidirectional=True), HEADS[head]
        width = 8 * inputs
        below = [nn.Linear(width, width), nn.ReLU()] if deep else []
        self.head = nn.Sequential(*below, nn.Linear(width, outputs))

    def forward(self, *inputs):
        found = []
        for x in inputs:
            y, state = self.rnn(x)
            found.append(self.summarise(y, state[0] if isinstance(state, tuple) else state))
        return self.head(torch.cat(found, dim=-1))


def in_eight_bits(folder, model, example):
    written = leanrnn.export(model, example, folder / "m.onnx")
    return leanrnn.quantize(written.path, seconds=0)


@pytest.mark.parametrize(("head", "outputs"), [*((head, 5) for head in HEADS), ("mean", 8)])
def test_heads_of_every_kind_square_and_not(tmp_path, head, outputs):
    small = in_eight_bits(tmp_path, Headed(nn.LSTM, head, outputs), torch.randn(5, 3, 6))
    assert 0 < small.difference < 0.1 and small.float_nodes == ()
    onnx.checker.check_model(small.path, full_check=True)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m.int8.onnx", "m.onnx"]


class Tied(nn.Module):
    """The embedding is the output's weight too: a Gather and a Gemm read one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn, self.bias = nn.Embedding(30, 6), nn.LSTM(6, 6), nn.Parameter(torch.zeros(30))

    def forward(self, words):
        return nn.functional.linear(self.rnn(self.words(words))[0].flatten(0, 1), self.words.weight, self.bias)


def test_an_embedding_that_is_tied_to_the_output(tmp_path):
    small = in_eight_bits(tmp_path, Tied(), torch.arange(30).view(5, 6))
    assert 0 < small.difference < 0.1


@pytest.mark.parametrize(("cls", "outputs"), [(nn.LSTM, 16), (nn.LSTM, 5), (nn.GRU, 5), (nn.RNN, 5)])
def test_two_inputs_and_two_layers_on_top(tmp_path, cls, outputs):
    example = torch.randn(5, 3, 6), torch.randn(4, 3, 6)
    small = in_eight_bits(tmp_path, Headed(cls, "mean", outputs, inputs=2, deep=True), example)
    assert 0 < small.difference < 0.1
    assert "Gemm" not in {node.op_type for node in onnx.load(small.path).graph.node}  # a product of bytes by now


class Read(nn.Module):
    """Layers that read a sequence, padded or not, from a state or from zeros, both ways."""

    def __init__(self, cls: type[nn.RNNBase], lengths: bool, state: bool, **options: object) -> None:
        super().__init__()
        self.rnn, self.lengths, self.state = cls(5, 7, num_layers=2, bidirectional=True, **options), lengths, state

    def forward(self, x, *more):
        rest = list(more)
        x = pack_padded_sequence(x, rest.pop(0), enforce_sorted=False) if self.lengths else x
        y, state = self.rnn(x, rest.pop(0) if self.state else None)
        return pad_packed_sequence(y)[0] if self.lengths else y, state

    def example(self, steps: int, ends: list[int]) -> tuple[torch.Tensor, ...]:
        found = [torch.randn(steps, len(ends), 5)]
        found += [torch.tensor(ends)] if self.lengths else []
        return (*found, *([torch.randn(4, len(ends), 7)] if self.state else []))


def made_of(path) -> set[str]:
    return {node.op_type for node in nodes_of(onnx.load(path).graph)}


@pytest.mark.parametrize(
    ("cls", "options", "lengths", "state"),
    [
        (nn.GRU, {}, False, False),
        (nn.GRU, {"bias": False}, False, True),
        (nn.GRU, {}, True, False),
        (nn.GRU, {}, True, True),
        (nn.RNN, {"nonlinearity": "relu"}, False, True),
        (nn.RNN, {"bias": False}, True, False),
    ],
)
def test_a_loop_of_products_is_what_the_node_is(tmp_path, cls, options, lengths, state):
    model = Read(cls, lengths, state, **options).eval()
    written = leanrnn.export(model, model.example(6, [6, 2, 4]), tmp_path / "m.onnx")
    file = onnx.load(written.path)
    to_steps(file)
    onnx.checker.check_model(file, full_check=True)
    onnx.save(file, tmp_path / "steps.onnx")
    assert made_of(tmp_path / "steps.onnx").isdisjoint({"GRU", "RNN"})
    inputs = {name: each.numpy() for name, each in zip(written.inputs, model.example(9, [3, 9, 1, 5]), strict=True)}
    for a, b in zip(*(session(tmp_path / name).run(None, inputs) for name in ("m.onnx", "steps.onnx")), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("cls", [nn.GRU, nn.RNN])
def test_a_gru_multiplies_bytes_in_every_step(tmp_path, cls):
    model = nn.Sequential(cls(40, 90, num_layers=2, bidirectional=True))
    written = leanrnn.export(model, torch.randn(5, 3, 40), tmp_path / "m.onnx")
    small = leanrnn.quantize(written.path, tmp_path / "q.onnx", reduce_range=True, seconds=0)
    assert small.float_nodes == () and 0 < small.difference < 0.05 and small.bytes_after < small.bytes_before / 3
    scans = [node for node in onnx.load(small.path).graph.node if node.op_type == "Scan"]
    inside = [{node.op_type for node in scan.attribute[0].g.node} for scan in scans]
    assert len(scans) == 4 and all("MatMulInteger" in each and "MatMul" not in each for each in inside)
    light = leanrnn.quantize(written.path, weights_only=True, seconds=0)
    assert len(light.float_nodes) == 4 and light.difference < small.difference


class Convolved(nn.Module):
    """Needs twenty steps at the least, and answers with whole numbers too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.rnn, self.head = nn.Conv1d(4, 6, 20), nn.GRU(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        scores = self.head(self.rnn(self.first(x).transpose(1, 2))[0])
        return scores.argmax(-1), scores


def test_lengths_the_model_cannot_have_are_left_out(tmp_path):
    written = leanrnn.export(Convolved(), torch.randn(2, 4, 40), tmp_path / "m.onnx")
    small = leanrnn.quantize(written.path, seconds=0.01)
    assert 0 < small.difference < 0.2
    assert [each.sizes for each in small.speed] == [{"batch": 1, "length": 64}, {"batch": 10, "length": 64}]


QUIET, BUSY = [1.0, 1.0, 1.01, 1.02, 1.05], [1.0, 1.1, 2.0, 9.0, 11.0]


def test_noisy_times_have_no_ratio():
    assert not is_noisy(QUIET) and is_noisy(BUSY) and far_apart(1.0, 1.51) and not far_apart(1.0, 1.5)
    assert times_faster([2 * each for each in QUIET], QUIET) == pytest.approx(2.0)
    assert times_faster(QUIET, BUSY) is None and times_faster(BUSY, QUIET) is None


SAID = [
    (QUIET, [1.4 * each for each in QUIET], "eight bits are SLOWER than 32, 1.40 times as long on this machine"),
    ([3 * each for each in QUIET], QUIET, "eight bits are faster than 32, 3.00 times on this machine"),
    (QUIET, [1.01 * each for each in QUIET], "eight bits are as fast as 32 on this machine"),
    (QUIET, BUSY, "the machine is too busy to tell whether eight bits are faster than 32"),
]


def test_it_is_told_when_eight_bits_are_slower(tmp_path, monkeypatch, capsys):
    times = {}

    def timed(calls, *_, **__):
        assert all(call() for call in calls.values())
        return {key: [1e-3 * each for each in times[key % 2]] for key in calls}

    monkeypatch.setattr("leanrnn.deploy.quantize.in_turns", timed)
    written = leanrnn.export(nn.Sequential(nn.GRU(6, 4)), torch.randn(5, 3, 6), tmp_path / "m.onnx")
    for before, after, told in SAID:
        times.update({0: before, 1: after})
        small = leanrnn.quantize(written.path)
        assert [tuple(each.sizes.values()) for each in small.speed] == [(1, 1), (1, 30), (10, 30)]
        assert all(told in str(each) for each in small.speed)
    assert main(["quantize", str(written.path)]) == 0
    out = capsys.readouterr().out
    assert out.count(told) == 3 and "With batch 10, time 30, the machine is too busy" in out
    assert main(["quantize", str(written.path), "--seconds", "0"]) == 0
    assert "busy" not in capsys.readouterr().out


def test_a_file_without_free_lengths_is_timed_as_it_was_exported():
    assert str(Speed({}, (1.0, 1.1), (0.5, 0.6), 2.0)).startswith("As exported, eight bits are faster")


class Blocks(nn.Module):
    """A product with a stack of matrices, as of gates in blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.blocks, self.head = nn.GRU(6, 8), nn.Parameter(torch.randn(2, 4, 4)), nn.Linear(8, 5)

    def forward(self, x):
        y = self.rnn(x)[0].unflatten(-1, (2, 4)).unsqueeze(-2)
        return self.head((y @ self.blocks).flatten(-3))


def test_a_stack_of_matrices_is_stored_in_bytes(tmp_path):
    small = in_eight_bits(tmp_path, Blocks(), torch.randn(5, 3, 6))
    assert 0 < small.difference < 0.1
    kept = {each.name: each for each in onnx.load(small.path).graph.initializer}
    assert kept["blocks/bytes"].data_type == onnx.TensorProto.INT8 and "blocks" not in kept
