"""What published models do to torch's layers, and files of it."""

import pytest
import torch
from torch import nn

import leanrnn


class WeightDrop(nn.Module):
    """A layer whose recurrent weight is made in every call, by a forward that holds on to the layer's own."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)
        self.rnn.weight_raw = self.rnn._parameters.pop("weight_hh_l0")
        forward = self.rnn.forward

        def dropped(*args):
            self.rnn.weight_hh_l0 = nn.functional.dropout(self.rnn.weight_raw, 0.3, self.rnn.training)
            return forward(*args)

        self.rnn.forward = dropped

    def forward(self, x):
        return self.head(self.rnn(x)[0])


def test_weight_drop(tmp_path):
    model, x = WeightDrop().eval(), torch.randn(2, 5, 4)
    before = nn.LSTM.forward.__code__
    for _ in range(2):  # the second time the weight of the first is there as a parameter
        written = leanrnn.export(model, x, tmp_path / "drop.onnx")
        assert written.inputs == {"x": ("batch", "time", 4)} and written.nodes < 9
        model(x)
    assert nn.LSTM.forward.__code__ is before


class Carried(nn.Module):
    """Takes its state in a dict, and gives it back in one."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 6, num_layers=2), nn.Linear(6, 2)

    def forward(self, x, state):
        out, (h, c) = self.rnn(x, (state["h"], state["c"]))
        return self.head(out), {"h": h, "c": c}


@pytest.mark.parametrize("keep", [{"rnn.l0": 3, "rnn.l1": 4}, {"rnn.l0": 3, "rnn.l1": 3}])
def test_a_state_of_the_width_before_the_cut(tmp_path, keep):
    model, x = Carried().eval(), torch.randn(5, 3, 4)
    wide = {"h": torch.randn(2, 3, 6), "c": torch.randn(2, 3, 6)}
    small = leanrnn.shrink(model, leanrnn.discover(model, (x, wide)), keep_widths=keep)
    written = leanrnn.export(small, (x, wide), tmp_path / "wide.onnx")
    assert written.inputs == {"x": ("time", "batch", 4), "state_h": (2, "batch", 6), "state_c": (2, "batch", 6)}
