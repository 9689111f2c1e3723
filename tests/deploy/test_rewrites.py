"""What published models do, and torch's own exporter does not: files are right at lengths never traced."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import leanrnn


class Model(nn.Module):
    """An LSTM, and what one does with it."""

    def __init__(self, run) -> None:
        super().__init__()
        self.run, self.batch, self.shape = run, 8, nn.Parameter(torch.tensor([1.0, 30.0, 60.0]))
        self.rnn, self.head, self.cell = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 4), nn.GRUCell(4, 6)

    def forward(self, x, *more):
        return self.run(self, x, *more)


def bounded(m, x):
    return m.rnn(x)[0].sum(-1, keepdim=True) + torch.clamp(m.shape, 2, 50.0)


def both_ways(m, x):
    forth, back = m.rnn(torch.cat([x, x.flip(1)]))[0].chunk(2, 0)
    return forth + back.flip(1)


def pooled(m, x):
    return nn.functional.adaptive_avg_pool2d(m.rnn(x)[0][:, None], (None, 1)).squeeze(3)


def remembers_the_batch(m, x):
    if m.batch != x.size(0):
        m.batch = x.size(0)
    return m.rnn(x)[0]


def two_steps(m, x):
    h, found = x.new_zeros(x.size(0), 6), []
    for step in x.unbind(1):
        h = m.cell(step, h)
        found.append(h)
    return torch.stack(found, 1)


@pytest.mark.parametrize("run", [bounded, both_ways, pooled, remembers_the_batch, two_steps], ids=lambda f: f.__name__)
def test_any_length(tmp_path, run):
    model, x = Model(run), torch.randn(2, 2 if run is two_steps else 5, 4)
    model(x)
    written = leanrnn.export(model, x, tmp_path / "m.onnx")
    assert not written.fixed and written.difference < 1e-5
    assert all(isinstance(size, str) for size in written.inputs["x"][:2])
    if run is remembers_the_batch:
        assert model.batch == 2


def highway(m, x, lengths):
    packed = m.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0]
    packed = PackedSequence(m.head(packed.data), *packed[1:])  # padding is not packed, so it stays zero
    return pad_packed_sequence(packed, batch_first=True)[0]


def listed(m, x, lengths):
    packed = pack_padded_sequence(x, lengths.view(-1).tolist(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(m.rnn(packed)[0], batch_first=True)[0]


@pytest.mark.parametrize("run", [highway, listed], ids=lambda f: f.__name__)
def test_padded_sequences(tmp_path, run):
    example = torch.randn(3, 5, 4), torch.tensor([5, 2, 4])
    written = leanrnn.export(Model(run), example, tmp_path / "m.onnx")
    assert written.inputs["x"] == ("batch", "time", 4) and written.difference < 1e-5


def test_eight_bits_of_a_model_that_takes_long_inputs_alone(tmp_path):
    wide = nn.Sequential(nn.Conv1d(1, 4, 700, stride=350), nn.Conv1d(4, 4, 2))
    model = Model(lambda m, x: m.rnn(wide(x).transpose(1, 2))[0])
    written = leanrnn.export(model, torch.randn(2, 1, 1800), tmp_path / "m.onnx")
    assert leanrnn.quantize(written.path, seconds=0).difference < 0.1


def filtered(m, x):
    """Complex numbers over a window of time, as filters of a spectrum have them."""
    y = m.rnn(x)[0]
    spectrum = torch.view_as_complex(torch.stack([y[..., :3], y[..., 3:]], -1))
    windows = nn.functional.pad(spectrum, (0, 0, 1, 1)).unsqueeze(-3).unfold(-2, 3, 1)[:, 0]
    weights = torch.view_as_complex(torch.arange(18.0).view(3, 3, 2))
    z = torch.einsum("btfn,fn->btf", windows, weights) + spectrum.select(-1, 0).unsqueeze(-1).expand(-1, -1, 3)
    return torch.view_as_real(z)


def test_complex_numbers_at_any_length(tmp_path):
    model, x = Model(filtered), torch.randn(2, 5, 4)
    written = leanrnn.export(model, x, tmp_path / "m.onnx")
    assert written.inputs["x"] == ("batch", "time", 4) and written.difference < 1e-5
