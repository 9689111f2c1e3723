"""Corners that random architectures led into, each as the smallest model that shows it."""

from __future__ import annotations

from typing import Any

import torch
from families import Run
from soaking import zeroed_by_hand
from torch import Tensor, nn

import leanrnn
from leanrnn.verify import difference, run


def cut(model: nn.Module, example: Any, keep: dict[str, list[int]]) -> nn.Module:
    """The smaller model, after it was compared with the one zeroed by hand."""
    model = model.double()
    groups = leanrnn.discover(model, example)
    small = leanrnn.shrink(model, groups, keep=keep)
    zeroed = zeroed_by_hand(model, groups, keep)
    assert difference(run(zeroed, example), run(small, example)) <= 1e-12
    return small


def x(time: int = 4, batch: int = 2, size: int = 5) -> Tensor:
    return torch.randn(time, batch, size, dtype=torch.float64)


def test_state_that_starts_from_new_zeros_is_a_state() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        h = x.new_zeros(x.size(1), m.u.in_features)
        for step in x:
            h = torch.tanh(m.w(step) + m.u(h))
        return m.head(h), h

    model = Run(forward, w=nn.Linear(5, 6), u=nn.Linear(6, 6), head=nn.Linear(6, 3))
    small = cut(model, x(), {"u": [0, 2]})
    assert small(x())[1].shape == (2, 2)


def test_projection_as_wide_as_the_cell() -> None:
    for bias in (False, True):
        rnn = nn.LSTM(5, 5, 2, proj_size=3, bias=bias)
        model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=rnn, head=nn.Linear(3, 2))
        widths = {"rnn.l0": [0, 3], "rnn.weight_hr_l0": [1, 2], "rnn.l1": [0, 1], "rnn.weight_hr_l1": [0, 2]}
        small = cut(model, x(), widths)
        small(x())[0].sum().backward()
        assert all(p.grad is not None for p in small.parameters())


def test_width_is_named_after_the_layer_not_after_a_bilinear_reader() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        out = m.rnn(x)[0]
        return m.head(out[0], out[-1])

    model = Run(forward, rnn=nn.LSTM(5, 6, proj_size=4), head=nn.Bilinear(4, 4, 3))
    assert leanrnn.discover(model.double(), x()).names == ["rnn.l0", "rnn.weight_hr_l0"]
