"""Loops over time in Python: what is the same in every step is a scan in the file, at any length."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import leanrnn

onnx = pytest.importorskip("onnx")


class Looped(nn.Module):
    """A forward and the modules it uses."""

    def __init__(self, forward: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor, state: Tensor | None = None) -> object:
        return self.run(self, x) if state is None else self.run(self, x, state)


def lstm_cell(m, x):
    h, c, found = x.new_zeros(x.size(1), 6), x.new_zeros(x.size(1), 6), []
    for step in x:
        h, c = m.cell(step, (h, c))
        found.append(h)
    return m.head(torch.stack(found)), c


def by_number(m, x):
    h, found = x.new_zeros(x.size(0), 6), []
    for t in range(x.size(1)):
        h = m.cell(x[:, t], h)
        found.append(m.head(h).unsqueeze(1))
    return torch.cat(found, dim=1)


def last_alone(m, x):
    h = x.new_zeros(x.size(1), 6)
    for step in x.unbind(0):
        h = m.cell(step, h)
    return m.head(h)


def state_given(m, x, h):
    found = []
    for step in x:
        h = torch.tanh(m.cell(torch.cat([step, h], -1)))
        found.append(h)
    return torch.stack(found, dim=1), h


def both_ways(m, x):
    h, ahead, behind = x.new_zeros(x.size(1), 6), [], []
    for step in x:
        h = m.cell(step, h)
        ahead.append(h)
    h = x.new_zeros(x.size(1), 6)
    for t in reversed(range(len(x))):
        h = m.back(x[t], h)
        behind.append(h)
    return torch.cat([torch.stack(ahead), torch.stack(behind[::-1])], -1)


def one_after_the_other(m, x):
    first, second = [x.new_zeros(x.size(1), 6)], [x.new_zeros(x.size(1), 6)]
    for step in x:
        first.append(m.cell(step, first[-1]))
    for step in torch.stack(first[1:]):
        second.append(m.top(step, second[-1]))
    return torch.stack(second[1:])


def into_a_buffer(m, x):
    h, found = x.new_zeros(x.size(0), 6), x.new_zeros(x.size(0), x.size(1), 6)
    for t in range(x.size(1)):
        h = m.cell(x[:, t], h)
        found[:, t] = h
    return m.head(found)


def by_pieces(m, x):
    h, found = x.new_zeros(x.size(0), 6), []
    for t, piece in enumerate(x.split(1, dim=1)):
        h = m.cell(piece.squeeze(1) + x[:, t : t + 1].mean(1), h)
        found.append(h)
    return torch.stack(found, 1)


def with_rows_of_a_weight(m, x):
    h, found = x.new_zeros(x.size(0), 6), []
    for step in x.unbind(1):
        h = m.cell(step, h) * m.rows.weight[0] + m.rows.weight[1] - m.rows.weight[2]
        found.append(h.unsqueeze(0))
    return torch.cat(found).transpose(0, 1), h


CELLS = {
    "both_ways": (both_ways, {"cell": nn.GRUCell(5, 6), "back": nn.GRUCell(5, 6)}, ("time", "batch", 5)),
    "one_after_the_other": (
        one_after_the_other,
        {"cell": nn.GRUCell(5, 6), "top": nn.GRUCell(6, 6)},
        ("time", "batch", 5),
    ),
    "into_a_buffer": (into_a_buffer, {"cell": nn.GRUCell(5, 6), "head": nn.Linear(6, 2)}, ("batch", "time", 5)),
    "by_pieces": (by_pieces, {"cell": nn.GRUCell(5, 6)}, ("batch", "time", 5)),
    "with_rows": (with_rows_of_a_weight, {"cell": nn.GRUCell(5, 6), "rows": nn.Embedding(3, 6)}, ("batch", "time", 5)),
    "lstm_cell": (lstm_cell, {"cell": nn.LSTMCell(5, 6), "head": nn.Linear(6, 2)}, ("time", "batch", 5)),
    "by_number": (by_number, {"cell": nn.GRUCell(5, 6), "head": nn.Linear(6, 2)}, ("batch", "time", 5)),
    "last_alone": (last_alone, {"cell": nn.RNNCell(5, 6), "head": nn.Linear(6, 2)}, ("time", "batch", 5)),
    "state_given": (state_given, {"cell": nn.Linear(11, 6)}, ("time", "batch", 5)),
}


@pytest.mark.parametrize("name", CELLS)
def test_loops_that_are_the_same_in_every_step(name, tmp_path):
    forward, parts, axes = CELLS[name]
    example = (torch.randn(4, 3, 5), torch.zeros(3, 6)) if name == "state_given" else torch.randn(4, 3, 5)
    written = leanrnn.export(Looped(forward, **parts), example, tmp_path / "m.onnx")
    assert written.inputs["x"] == axes and written.difference < 1e-5
    kinds = [node.op_type for node in onnx.load(written.path).graph.node]
    assert kinds.count("Scan") == (2 if name in ("both_ways", "one_after_the_other") else 1)
    assert len(kinds) < (32 if name == "both_ways" else 24)


def knows_the_step(m, x):
    h = x.new_zeros(x.size(1), 6)
    for t, step in enumerate(x):
        h = m.cell(step, h) / (t + 1)
    return h


def reads_two_back(m, x):
    found = [x.new_zeros(x.size(1), 6)] * 2
    for step in x:
        found.append(m.cell(step, found[-2]))
    return torch.stack(found)


@pytest.mark.parametrize("forward", [knows_the_step, reads_two_back])
def test_others_have_the_steps_of_the_example(forward, tmp_path):
    written = leanrnn.export(Looped(forward, cell=nn.GRUCell(5, 6)), torch.randn(4, 3, 5), tmp_path / "m.onnx")
    assert written.inputs == {"x": (4, "length", 5)} and written.fixed == {"time": 4}
