"""Models whose result is integers: tags of a decoder, counts, codes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.running.compare import difference, run
from tests.support.families import Run

X = torch.randn(5, 3, 4)


class Tagger(nn.Module):
    """A BiLSTM with a CRF, which returns the likeliest tags."""

    def __init__(self, lists: bool = False) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 6, bidirectional=True), nn.Linear(12, 5)
        self.transitions, self.lists = nn.Parameter(torch.randn(5, 5)), lists

    def forward(self, x: Tensor) -> Any:
        emissions = self.out(self.rnn(x)[0])
        score, back = emissions[0], []
        for emission in emissions[1:]:
            best, index = (score.unsqueeze(2) + self.transitions).max(1)
            score = best + emission
            back.append(index)
        path = [score.argmax(-1)]
        for index in reversed(back):
            path.append(index.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        tags = torch.stack(path[::-1])
        return tags.tolist() if self.lists else tags


def decoder(pick: Any) -> nn.Module:
    return Run(lambda m, x: pick(m.head(m.rnn(x)[0])), rnn=nn.LSTM(4, 6), head=nn.Linear(6, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lists", [False, True])
def test_tags_of_a_decoder(lists, dtype):
    groups = leanrnn.discover(Tagger(lists).to(dtype), X.to(dtype))
    assert groups.widths == {"rnn.l0": 6, "rnn.l0_reverse": 6}
    assert groups.notes == []


@pytest.mark.parametrize("states", ["auto", [0]])
@pytest.mark.parametrize(
    "pick",
    [
        lambda y: y.argmax(-1),
        lambda y: y.topk(2)[1],
        lambda y: "".join("abc"[i] for i in y.argmax(-1).flatten().tolist()),
        lambda y: y.sum().item(),
        lambda y: y.detach().numpy(),
    ],
)
def test_result_without_floating_tensors(pick, states):
    groups = leanrnn.discover(decoder(pick), X, states=states)
    assert groups.widths == {"rnn.l0": 6}


def test_what_integers_are_chosen_from_shows_a_difference():
    model, other = decoder(lambda y: y.argmax(-1)), decoder(lambda y: y.argmax(-1))
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        other.head.bias += torch.tensor([0.01, 0.01, 0.01])
    one, two = run(model, X), run(other, X)
    assert torch.equal(one[0], two[0])
    assert 1e-3 < difference(one, two) < 1


def test_integers_are_compared_exactly():
    a, b = torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5])
    assert difference([a], [a.clone()]) == 0
    assert difference([a], [b]) == 0.25
    assert difference([a.double(), a], [a.double(), b]) == 0.25
    assert difference([torch.ones(3), a], [torch.ones(2), a]) == float("inf")


def test_tie_that_rounding_breaks_is_no_fault():
    """Two classes of equal scores: which is the largest is a matter of rounding."""
    torch.manual_seed(1)
    model = decoder(lambda y: y.argmax(-1))
    with torch.no_grad():
        model.head.weight[1] = model.head.weight[0]
        model.head.bias[1] = model.head.bias[0]
    assert leanrnn.discover(model, torch.randn(40, 8, 4)).widths == {"rnn.l0": 6}


def test_proof_that_cannot_see_says_so():
    model = Run(lambda m, x: m.rnn(x)[0].relu().count_nonzero(-1), rnn=nn.LSTM(4, 6))
    groups = leanrnn.discover(model, X)
    note = "the result is integers: the proof compares 15 of them, which may not show every difference"
    assert groups.widths == {"rnn.l0": 6} and groups.notes == [note]
    assert str(groups).endswith(f"note: {note}")
    assert leanrnn.Groups.from_json(groups.to_json()).notes == [note]


def test_integers_as_wide_as_the_state_keep_their_width():
    groups = leanrnn.discover(Run(lambda m, x: m.rnn(x)[0] > 0, rnn=nn.LSTM(4, 6)), X)
    assert len(groups) == 0 and groups.pinned[0][1].startswith("reaches output 0 of the model")
