"""Files of C: the model frame by frame, compiled as strictly as can be, with nothing read or written beside."""

import copy
import ctypes
import subprocess

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import leanrnn
from leanrnn.deploy import metadata_of, runner_of
from leanrnn.errors import ExportError

STRICT = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
FRAMES = 2000


class Stack(nn.Module):
    """Layers of all kinds, each of another width."""

    def __init__(self):
        super().__init__()
        self.into, self.gru = nn.Linear(5, 6), nn.GRU(6, 7)
        self.lstm, self.rnn = nn.LSTM(7, 3, 2), nn.RNN(3, 9, nonlinearity="relu", bias=False)
        self.norm, self.out = nn.LayerNorm(9), nn.Linear(9, 4)

    def forward(self, frames):
        y = self.lstm(self.gru(torch.tanh(self.into(frames)))[0])[0]
        return torch.sigmoid(self.out(self.norm(self.rnn(y)[0]) + frames.sum(-1, keepdim=True)))


class Windows(nn.Module):
    """Convolutions that read no frame ahead, padded in both ways."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv1d(4, 8, 3, padding=2), nn.BatchNorm1d(8)
        self.each, self.pairs = nn.Conv1d(8, 8, 3, dilation=2, groups=8), nn.Conv1d(8, 4, 2, groups=2)
        self.last, self.act = nn.Conv1d(4, 6, 2, dilation=3, bias=False), nn.ReLU(inplace=True)
        for buffer in (self.norm.running_mean, self.norm.running_var):
            buffer.copy_(torch.rand(8) + 0.5)

    def forward(self, x):
        y = self.act(self.norm(self.first(x)[:, :, :-2]))
        y = F.silu(self.pairs(F.pad(self.each(F.pad(y, (4, 0))), (1, 0))))
        return F.glu(self.last(F.pad(y, (3, 0))), 1)


class Carrying(nn.Module):
    """Two states, of which one is what a convolution has read before."""

    def __init__(self):
        super().__init__()
        self.conv, self.rnn = nn.Conv1d(4, 6, 3), nn.GRU(6, 5, batch_first=True)

    def forward(self, x, before, h):
        z = torch.cat([before, x.transpose(1, 2)], 2)
        y, h = self.rnn(self.conv(z).transpose(1, 2), h)
        return y, z[:, :, -2:], h


class Words(nn.Module):
    """One step a call, of numbers that stand for words."""

    def __init__(self, cell):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(11, 4), cell(4, 6), nn.Linear(6, 11)

    def forward(self, word, h, c=None):
        state = self.cell(self.embed(word), h if c is None else (h, c))
        scores = F.log_softmax(self.out(state if c is None else state[0]), -1)
        return (scores, state) if c is None else (scores, *state)


class Begins(nn.Module):
    """Begins with numbers that were learned."""

    def __init__(self):
        super().__init__()
        self.rnn, self.h = nn.GRU(6, 5), nn.Parameter(torch.randn(1, 1, 5))

    def forward(self, x):
        return self.rnn(x, self.h.expand(1, x.size(1), 5).contiguous())[0]


class Headed(nn.Module):
    """An LSTM that takes and gives its state, or neither."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(5, 8, 2), nn.Linear(8, 4)

    def forward(self, x, state=None):
        y, state = self.rnn(x, state)
        return self.out(y), state


def cut():
    """Of two widths."""
    model, x = Headed(), torch.randn(4, 2, 5)
    return leanrnn.shrink(model, leanrnn.discover(model, x), keep_widths={"rnn.l0": 6, "rnn.l1": 3})


def cases():
    """Models with an example."""
    torch.manual_seed(0)
    unequal = cut()
    words = torch.tensor([3, 10])
    return {
        "stack": (Stack(), torch.randn(6, 2, 5)),
        "windows": (Windows(), torch.randn(2, 4, 9)),
        "carrying": (Carrying(), (torch.randn(2, 5, 4), torch.zeros(2, 4, 2), torch.zeros(1, 2, 5))),
        "lstm_cell": (Words(nn.LSTMCell), (words, torch.zeros(2, 6), torch.zeros(2, 6))),
        "gru_cell": (Words(nn.GRUCell), (words, torch.zeros(2, 6))),
        "rnn_cell": (Words(nn.RNNCell), (words, torch.zeros(2, 6))),
        "begins": (Begins(), torch.randn(4, 2, 6)),
        "unequal": (unequal, torch.randn(4, 2, 5)),
        "state_given": (unequal, (torch.randn(4, 2, 5), unequal(torch.randn(4, 2, 5))[1])),
        "no_recurrence": (
            nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 3), nn.Softmax(-1)),
            torch.randn(3, 5),
        ),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_frame_by_frame_it_is_the_model(name, tmp_path):
    model, example = CASES[name]
    written = leanrnn.export(model.eval(), example, tmp_path / f"{name}.c")
    assert written.difference < 5e-6
    done = subprocess.run([*STRICT, "-c", written.path, "-o", tmp_path / "m.o"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("model", ["stack", "windows"])
def test_thousands_of_frames(model, tmp_path):
    network, example = CASES[model]
    written = leanrnn.export(network.eval(), example, tmp_path / "m.c")
    axis = written.inputs["frames" if model == "stack" else "x"].index("time")
    shape = list(example.shape)
    shape[axis] = FRAMES
    x = torch.randn(shape)
    (found,) = runner_of(written.path)([x])
    torch.testing.assert_close(found, network(x).detach(), rtol=1e-5, atol=5e-6)


MAIN = """
#include <stdio.h>
#include "m.h"
int main(void)
{
    static m_state state;
    float x[5], y[4];
    m_init(&state);
    while (fread(x, sizeof x, 1, stdin) == 1) {
        m_step(&state, x, y);
        fwrite(y, sizeof y, 1, stdout);
    }
    return 0;
}
"""


def test_under_sanitizers_nothing_is_read_or_written_beside(tmp_path):
    model, example = CASES["stack"]
    leanrnn.export(model.eval(), example, tmp_path / "m.c")
    (tmp_path / "main.c").write_text(MAIN)
    checks = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run([*STRICT, *checks, "main.c", "m.c", "-o", "m", "-lm"], cwd=tmp_path, check=True)
    x = torch.randn(FRAMES, 1, 5)
    x[0] = 1e4  # far beyond where an exponential ends
    done = subprocess.run([tmp_path / "m"], input=x.numpy().tobytes(), capture_output=True, check=True)
    found = torch.from_numpy(np.frombuffer(done.stdout, np.float32).copy()).view(FRAMES, 1, 4)
    torch.testing.assert_close(found, model(x).detach(), rtol=1e-5, atol=5e-6)


def test_weights_are_those_of_the_model_to_the_last_bit(tmp_path):
    from leanrnn.deploy.formats.c.source import Source

    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.view(-1)[:4] = torch.tensor([0.0, 1e-40, 3.0, -1 / 3])
    path = leanrnn.export(model, torch.randn(2, 3), tmp_path / "m.c").path
    source = Source.read(path.read_text(), metadata_of(path))
    np.testing.assert_array_equal(source.arrays["weight"].reshape(3, 2).T, model.weight.detach().numpy())


def test_it_says_what_it_needs(tmp_path):
    written = leanrnn.export(CASES["stack"][0], CASES["stack"][1], tmp_path / "m.c")
    (note,) = written.notes
    weights = sum(p.numel() for p in CASES["stack"][0].parameters())
    library = tmp_path / "m.so"
    subprocess.run(["cc", "-shared", "-fPIC", written.path, "-o", library, "-lm"], check=True)
    assert hasattr(ctypes.CDLL(str(library)), "m_step")
    states = 7 + 4 * 3 + 9
    # The two biases of a layer of the LSTM are one array.
    assert f"weights {4 * (weights - 2 * 12):,} bytes; state {4 * states} bytes; scratch " in note
    products = 5 * 6 + 3 * 7 * (6 + 7) + 4 * 3 * (7 + 3) + 4 * 3 * (3 + 3) + 9 * (3 + 9) + 9 * 4
    assert note.endswith(f"{products:,} mult-adds a step")
    assert note in written.path.read_text() and note in written.path.with_suffix(".h").read_text()


def test_eight_bits_are_the_model_with_rounded_weights(tmp_path):
    model, example = CASES["stack"]
    path = leanrnn.export(model.eval(), example, tmp_path / "m.c").path
    found = leanrnn.quantize(path, seconds=0)
    assert found.path == tmp_path / "m.int8.c" and found.bytes_after < found.bytes_before and found.difference < 0.02
    done = subprocess.run([*STRICT, "-c", found.path, "-o", tmp_path / "m.o"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        for weight in (p for p in rounded.parameters() if p.dim() == 2):
            scales = weight.abs().amax(1, keepdim=True) / 127
            weight.copy_((weight / scales).round() * scales)
    x = torch.randn(200, 1, 5)
    torch.testing.assert_close(runner_of(found.path)([x])[0], rounded(x).detach(), rtol=1e-3, atol=5e-4)
    with pytest.raises(ExportError, match="Leave weights_only out"):
        leanrnn.quantize(path, weights_only=True, seconds=0)


class Layer(nn.Module):
    """A function of a GRU's output."""

    def __init__(self, after):
        super().__init__()
        self.rnn, self.after = nn.GRU(4, 4, batch_first=True), after

    def forward(self, x):
        return self.after(self.rnn(x)[0])


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (lambda y: torch.fft.rfft(y).abs(), r"has no aten.fft_rfft at .*test_c.py.* or export to .onnx"),
        (lambda y: y.mean(1), r"aten.mean.dim at .* reads all steps"),
        (lambda y: y @ y.transpose(1, 2), "multiplies two tensors that only a run knows"),
    ],
)
def test_what_it_does_not_know_is_refused_by_name(after, why, tmp_path):
    with pytest.raises(ExportError, match=why):
        leanrnn.export(Layer(after), torch.randn(2, 3, 4), tmp_path / "m.c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "example", "why"),
    [
        (nn.LSTM(3, 4, bidirectional=True), torch.randn(5, 2, 3), "lstm reads backwards"),
        (nn.Conv1d(4, 4, 3, padding=1), torch.randn(2, 4, 9), r"conv1d reads 1 frames ahead .*pad\(x, \(2, 0\)\)"),
        (nn.Conv1d(4, 4, 3, padding="same"), torch.randn(2, 4, 9), "reads 1 frames ahead"),
        (nn.Conv1d(4, 4, 3), torch.randn(2, 4, 9), "does not run on one step"),
        (nn.Conv1d(4, 4, 3, padding=2, stride=2), torch.randn(2, 4, 9), "has a stride of 2"),
    ],
)
def test_what_needs_more_than_the_frames_so_far_is_refused(model, example, why, tmp_path):
    with pytest.raises(ExportError, match=why):
        leanrnn.export(model, example, tmp_path / "m.c")
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ExportError, match=r"there is no C compiler .no-such-compiler.*in the variable CC"):
        leanrnn.export(nn.Linear(2, 3), torch.randn(4, 2), tmp_path / "m.c")
    assert list(tmp_path.iterdir()) == []
