"""Why a width stays: always the operator and the line, also where it would leave only along with another."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from tests.discovery.test_corners import cut, x
from tests.support.families import Run


def headwise(x: Tensor, weight: Tensor) -> Tensor:
    """A matrix for every block of the width."""
    return torch.einsum("tbni,nio->tbno", x.unflatten(-1, (weight.size(0), -1)), weight).flatten(2)


def matrix_memory(m: Any, x: Tensor) -> Tensor:
    """The parallel form of an mLSTM: every head decays by a gate of its own; blocks and heads divide the width anew."""
    v = headwise(m.inward(x), m.v)
    q, k, v = (part.unflatten(-1, (2, -1)).movedim(0, 2) for part in (m.q(x), m.k(x), v))  # batch, head, time, width
    decay = torch.nn.functional.logsigmoid(m.gate(x)).permute(1, 2, 0).cumsum(-1)  # batch, head, time
    scores = (q @ k.mT) * torch.exp(decay.unsqueeze(-1) - decay.unsqueeze(-2)).tril()
    mixed = scores @ v
    return m.head(mixed.movedim(2, 0).flatten(2))


def test_a_width_that_leaves_only_along_with_another_names_operator_and_line() -> None:
    parts = {"inward": nn.Linear(5, 8), "q": nn.Linear(5, 8), "k": nn.Linear(5, 8), "gate": nn.Linear(5, 2)}
    model = Run(matrix_memory, **parts, head=nn.Linear(8, 3)).double()
    model.v = nn.Parameter(torch.randn(4, 2, 2, dtype=torch.float64))
    reason = dict(leanrnn.discover(model, x()).pinned)["gate"]
    lines, first = inspect.getsourcelines(matrix_memory)
    line = first + next(i for i, text in enumerate(lines) if "scores @ v" in text)
    assert reason == f"leaves only along with v, which it meets in aten.bmm at {__file__}:{line}"


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
