"""What published models do to torch's layers, and files of it."""

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
