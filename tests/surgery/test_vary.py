"""The proof tries other lengths and batches than the user's; what fits together is varied together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import leanrnn
from leanrnn.surgery.vary import longer_examples
from tests.support.families import Run

X = torch.randn(5, 3, 4)


def shapes(example: Any, times: int = 2) -> list[list[list[tuple[int, ...]]]]:
    return [[[tuple(t.shape) for t in way(times)] for way in ways] for ways in longer_examples(example)]


def test_lengths_and_states_follow_the_batch():
    time, batch = shapes((X, torch.tensor([5, 3, 2]), torch.zeros(1, 3, 6)))
    assert time == [[(10, 3, 4), (3,), (1, 3, 6)], [(10, 3, 4), (6,), (2, 3, 6)]]
    assert batch == [[(5, 6, 4), (6,), (1, 6, 6)], [(5, 6, 4), (3,), (1, 6, 6)]]
    assert shapes((X,), 3) == [[[(15, 3, 4)]], [[(5, 9, 4)]]]


SEEN: set[tuple[int, ...]] = set()
"""Shapes that a forward was called with, by the model and by all its copies."""


def packed(m: Any, x: Tensor, lengths: Tensor) -> Tensor:
    SEEN.add((*x.shape[:2], *lengths.shape))
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    return m.head(pad_packed_sequence(m.rnn(packed)[0])[0])


def masked(m: Any, x: Tensor, mask: Tensor) -> Tensor:
    SEEN.add((*x.shape[:2], *mask.shape))
    out = m.rnn(x)[0]
    return m.head((out * mask.t().unsqueeze(-1)).sum(0))


@pytest.mark.parametrize(
    ("forward", "second", "seen"),
    [
        (packed, torch.tensor([5, 3, 2]), {(5, 3, 3), (5, 6, 6), (10, 3, 3)}),
        (masked, torch.rand(3, 5) > 0.3, {(5, 3, 3, 5), (5, 6, 6, 5), (10, 3, 3, 10)}),
    ],
)
def test_models_are_proven_at_other_lengths_and_batches(forward, second, seen):
    model = Run(forward, rnn=nn.GRU(4, 6), head=nn.Linear(6, 3))
    SEEN.clear()
    assert leanrnn.discover(model, (X, second)).widths == {"rnn.l0": 6}
    assert seen <= SEEN


def test_input_by_the_chance_of_equal_numbers_is_not_held_against_the_cut():
    """A temperature of shape (1,), twice as long, is as wide as the state; three times as long it is no input."""

    def forward(m: Any, x: Tensor, temperature: Tensor) -> Tensor:
        return m.head(m.rnn(x)[0] * temperature)

    groups = leanrnn.discover(Run(forward, rnn=nn.GRU(4, 2), head=nn.Linear(2, 3)), (X, torch.ones(1)))
    assert groups.widths == {"rnn.l0": 2} and groups.pinned == []


def test_chaos_on_a_longer_example_is_not_held_against_the_cut():
    """Rounding grows tenfold in a step, so that twice as many steps agree in nothing, in no precision."""

    def forward(m: Any, x: Tensor) -> Tensor:
        h = x.new_zeros(x.size(1), m.u.in_features)
        for step in x:
            h = torch.sin(m.w(step) + 12 * m.u(h))
        return m.head(h)

    torch.manual_seed(0)
    parts = {"w": nn.Linear(4, 16), "u": nn.Linear(16, 16), "head": nn.Linear(16, 3)}
    groups = leanrnn.discover(Run(forward, **parts).double(), torch.randn(7, 3, 4).double())
    assert groups.widths == {"u": 16} and groups.pinned == []


def test_fault_at_every_other_batch_is_found():
    def forward(m: Any, x: Tensor) -> Tensor:
        out = m.rnn(x)[0]
        return m.head(out) * (1 if x.size(1) == 3 else out.size(-1))

    ((name, reason),) = leanrnn.discover(Run(forward, rnn=nn.GRU(4, 6), head=nn.Linear(6, 3)), X).pinned
    assert name == "rnn.l0" and reason.startswith("cutting it changes the result by")


def test_forward_that_insists_on_its_type_is_no_exception_of_the_cut():
    def forward(m: Any, x: Tensor) -> Tensor:
        out = m.rnn(x.float())[0]
        return m.head(out) * out.size(-1)

    ((_, reason),) = leanrnn.discover(Run(forward, rnn=nn.GRU(4, 6), head=nn.Linear(6, 3)), X).pinned
    assert reason.startswith("cutting it changes the result by")
