"""Models that read numbers out of their tensors: harmless ones are exported, a branch that an input decides is not."""

import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.errors import ExportError


class Reads(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.rnn, self.head, self.how = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3), how

    def forward(self, x, lengths):
        y, _ = self.rnn(x)
        if self.how in ("longest", "longest as int"):
            longest = lengths.max().item() if self.how == "longest" else int(lengths.max())
            y = y * (torch.arange(longest) < lengths[:, None]).unsqueeze(-1)
        elif self.how == "axes":
            y = y - y.mean(torch.arange(1, y.dim()).tolist(), keepdim=True) + lengths.sum()
        elif self.how == "checks":
            assert not torch.isnan(x).any()
            if (lengths > x.size(1)).any():
                raise ValueError("too long")
        elif self.how == "branch":
            y = y + 1 if lengths.sum() > 9 else y
        elif self.how == "number" and int(lengths.max()) > 4:
            y = y + 1
        return self.head(y)


@pytest.mark.parametrize("how", ["longest", "longest as int", "axes", "checks"])
def test_numbers_that_say_no_more_than_a_size(tmp_path, how):
    example = torch.randn(3, 5, 4), torch.tensor([5, 2, 4])
    written = leanrnn.export(Reads(how), example, tmp_path / "m.onnx")
    assert written.inputs["x"][1:] == (("time" if how != "longest as int" else 5), 4)  # int() has made it a constant
    assert written.difference < 1e-5


@pytest.mark.parametrize("how", ["branch", "number"])
def test_branches_that_an_input_decides(tmp_path, how):
    with pytest.raises(ExportError, match=r"test_values.py.* depends on values that only a run knows"):
        leanrnn.export(Reads(how), (torch.randn(3, 5, 4), torch.tensor([5, 2, 4])), tmp_path / "m.onnx")
