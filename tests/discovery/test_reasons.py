"""Why a width stays: always the operator and the line, also where it would leave only along with another."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from tests.discovery.test_corners import cut, x
from tests.support.families import Run


def times_pairs(m: Any, x: Tensor) -> Tensor:
    """A state that is multiplied with all pairs of two others, flattened."""
    pairs = (m.a(x)[0].unsqueeze(-1) * m.b(x)[0].unsqueeze(-2)).flatten(2)
    h, outs = x.new_zeros(x.size(1), m.u.in_features), []
    for step, pair in zip(x, pairs, strict=True):
        h = torch.tanh(m.w(step) + m.u(h))
        outs.append(h * pair)
    return m.head(torch.stack(outs))


def test_a_width_that_leaves_only_along_with_another_names_operator_and_line() -> None:
    parts = {"a": nn.GRU(5, 4), "b": nn.GRU(5, 3), "w": nn.Linear(5, 12), "u": nn.Linear(12, 12)}
    groups = leanrnn.discover(Run(times_pairs, **parts, head=nn.Linear(12, 2)).double(), x())
    lines, first = inspect.getsourcelines(times_pairs)
    line = first + next(i for i, text in enumerate(lines) if "h * pair" in text)
    assert groups.widths == {"a.l0": 4, "b.l0": 3}
    reason = dict(groups.pinned)["u"]
    assert reason == f"leaves only along with a.weight_ih_l0, which it meets in aten.mul at {__file__}:{line}"


def squeezed(m: Any, x: Tensor) -> Tensor:
    h = x.new_zeros(1, x.size(1), m.u.in_features)
    for step in x:
        h = torch.tanh(m.w(step) + m.u(h.squeeze_(0)))
        h *= 0.9
        h.unsqueeze_(0).mul_(1.1)
    return m.head(h.squeeze_(0))


def test_a_tensor_that_takes_another_shape_in_place() -> None:
    model = Run(squeezed, w=nn.Linear(5, 6), u=nn.Linear(6, 6), head=nn.Linear(6, 3))
    assert cut(model, x(), {"u": [0, 2]}).u.in_features == 2


def scaled(m: Any, x: Tensor) -> Tensor:
    y = m.rnn(x)[0]
    return m.head((y @ y.mT / y.size(-1) ** 0.5).softmax(-1) @ y)


def test_a_number_that_is_computed_from_the_width_is_named() -> None:
    groups = leanrnn.discover(Run(scaled, rnn=nn.GRU(5, 6), head=nn.Linear(6, 3)).double(), x())
    line = inspect.getsourcelines(scaled)[1] + 2
    [(name, reason)] = groups.pinned
    assert name == "rnn.l0" and reason.startswith("cutting it changes the result by ")
    assert f", as 2.45 in aten.div at {__file__}:{line} becomes " in reason
