"""States that the caller hands in: zero where a component is dead, if the model returned them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.running.compare import difference, run
from leanrnn.surgery.zeroing import zeroed_example
from tests.support.families import Run
from tests.support.soaking import zeroed_by_hand

X = torch.randn(5, 3, 4, dtype=torch.float64)


def normed(layers: int = 1, cell: Any = nn.LSTM) -> nn.Module:
    def forward(m: Any, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        out, new = m.rnn(x, states if len(states) > 1 else states[0])
        return m.head(m.norm(out)), *(new if isinstance(new, tuple) else (new,))

    parts = {"rnn": cell(4, 6, layers), "norm": nn.LayerNorm(6), "head": nn.Linear(6, 3)}
    return Run(forward, **parts).double()


def states(layers: int, count: int) -> list[Tensor]:
    return [torch.randn(layers, 3, 6, dtype=torch.float64) for _ in range(count)]


@pytest.mark.parametrize(("layers", "cell", "count"), [(1, nn.LSTM, 2), (2, nn.LSTM, 2), (1, nn.GRU, 1)])
def test_norm_behind_a_layer_whose_state_is_an_argument(layers, cell, count):
    torch.manual_seed(0)
    model = normed(layers, cell)
    groups = leanrnn.discover(model, (X, *states(layers, count)))
    last = f"rnn.l{layers - 1}"
    assert groups.widths == {f"rnn.l{i}": 6 for i in range(layers)} and groups.pinned == []
    assert groups[last].needs_zero_bias
    assert groups.notes[-1].startswith(f"{last}: the state handed in (input 1{' and 2' * (count > 1)}) has to be one")
    keep = {name: [0, 2, 3] for name in groups.names}
    large, small = zeroed_by_hand(model, groups, keep), leanrnn.shrink(model, groups, keep=keep)
    carried: Any = [[t * 0 for t in states(layers, count)]] * 2
    for _ in range(3):  # each goes on from what it returned itself
        a, b = (m(X, *given) for m, given in zip((large, small), carried, strict=True))
        assert difference([a[0].detach()], [b[0].detach()]) <= 1e-12
        carried = [a[1:], b[1:]]


def test_example_of_the_proof_has_zeros_where_components_are_dead():
    example = (X, *states(2, 2))
    groups = leanrnn.discover(normed(2), example)
    masks = groups.keep_mask({"rnn.l0": [0, 1, 2], "rnn.l1": [3, 4]})
    for state in zeroed_example(example, groups, masks)[1:]:
        assert (state.abs().amax(1) > 0).tolist()[1] == [False, False, False, True, True, False]
    assert (example[1] != 0).all()
    groups.layers = groups.cut(masks)
    again = leanrnn.Groups.from_json(groups.to_json())
    masks = again.keep_mask({"rnn.l1": [1]})
    for state in zeroed_example(example, again, masks)[1:]:
        assert (state.abs().amax(1) > 0).tolist()[1] == [True, True, True, False, True, True]


def test_context_that_is_not_the_state_is_never_zero():
    def forward(m: Any, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        out, h = m.rnn(x)
        return m.head(m.norm(out + context)), h

    model = Run(forward, rnn=nn.GRU(4, 6), norm=nn.LayerNorm(6), head=nn.Linear(6, 3)).double()
    groups = leanrnn.discover(model, (X, *states(1, 1)))
    assert len(groups) == 0 and "enters the mean of a norm" in dict(groups.pinned)["rnn.l0"]


def test_returned_state_that_is_not_zero_makes_none_that_is():
    """A sigmoid behind the state: what comes back is never zero, whatever went in."""

    def forward(m: Any, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        out, h = m.rnn(x, h)
        return m.head(m.norm(out)), torch.sigmoid(h)

    model = Run(forward, rnn=nn.GRU(4, 6), norm=nn.LayerNorm(6), head=nn.Linear(6, 3)).double()
    groups = leanrnn.discover(model, (X, *states(1, 1)))
    assert len(groups) == 0 and "enters the mean of a norm" in dict(groups.pinned)["rnn.l0"]


def test_without_a_norm_a_state_may_be_anything():
    model = Run(lambda m, x, h: (lambda y: (m.head(y[0]), y[1]))(m.rnn(x, h)), rnn=nn.GRU(4, 6), head=nn.Linear(6, 3))
    example = (X, *states(1, 1))
    groups = leanrnn.discover(model.double(), example)
    assert groups.notes == [] and groups["rnn.l0"].given == ()
    keep = {"rnn.l0": [0, 2, 3]}
    small = leanrnn.shrink(model, groups, keep=keep)
    assert difference(run(zeroed_by_hand(model, groups, keep), example), run(small, example)) <= 1e-12
