"""How a tape is read when the plain reading fails the proof: which reading is taken, and that it is written down."""

import inspect
import json

import pytest
import torch
from torch import Tensor, nn

import leanrnn
import tests.support.families_more  # registers more families
import tests.support.families_newer  # noqa: F401
from leanrnn.discovery.readings import PLAIN, READINGS
from tests.discovery.test_corners import cut, x
from tests.support.families import FAMILIES, Run


def translate(m, x: Tensor) -> Tensor:
    """Encoder, additive attention and a decoder whose first state has a width written as a number."""
    states = m.encoder(x)[0]
    h = c = x.new_zeros(len(x), 5)
    outs = []
    for _ in range(3):
        scores = m.energy(torch.tanh(m.keys(states) + m.query(h).unsqueeze(1))).softmax(1)
        h, c = m.decoder((scores * states).sum(1), (h, c))
        outs.append(m.head(h))
    return torch.stack(outs, 1)


def translator() -> Run:
    return Run(
        translate,
        encoder=nn.GRU(3, 6, bidirectional=True, batch_first=True),
        keys=nn.Linear(12, 4),
        query=nn.Linear(5, 4),
        energy=nn.Linear(4, 1),
        decoder=nn.LSTMCell(12, 5),
        head=nn.Linear(5, 2),
    )


def test_a_literal_width_pins_its_layer_and_ties_no_others() -> None:
    model, example = translator().double(), torch.randn(2, 4, 3, dtype=torch.float64)
    groups = leanrnn.discover(model, example)
    assert {name: width for name, width in groups.widths.items() if name != "keys"} == {
        "encoder.l0": 6,
        "encoder.l0_reverse": 6,
    }
    ((width, reason),) = groups.pinned
    lines, first = inspect.getsourcelines(translate)
    query = first + next(i for i, line in enumerate(lines) if "m.query(h)" in line)
    zeros = first + next(i for i, line in enumerate(lines) if "new_zeros" in line)
    assert width == "decoder" and any(f"{__file__}:{line}" in reason for line in (zeros, query))
    assert groups.reading == PLAIN.words
    cut(model, example, {"encoder.l0": [0, 1], "encoder.l0_reverse": [1, 3, 5]})


def computed_and_thrown_away(m, x: Tensor) -> Tensor:
    """A second width that is computed from the first and not used: it has to fit all the same."""
    h = x.new_zeros(x.size(1), m.u.in_features)
    for step in x:
        h = torch.tanh(m.w(step) + m.u(h))
        _ = h * m.unused
    return m.head(h)


def wasteful() -> Run:
    model = Run(computed_and_thrown_away, w=nn.Linear(5, 6), u=nn.Linear(6, 6), head=nn.Linear(6, 3))
    model.unused = nn.Parameter(torch.randn(6))
    return model


def slices_and_waste(m, x: Tensor) -> Tensor:
    """Last states joined by slices, which takes one width for both directions, and a stack of states nobody reads."""
    h = m.rnn(x)[1]
    a, b = m.a(x)[1], m.b(x)[1]
    torch.stack([a, b])
    return m.head(torch.cat([h[0 : h.size(0) : 2], h[1 : h.size(0) : 2], a + m.match(b)], 2))


def both() -> Run:
    parts = {"a": nn.GRU(5, 4), "b": nn.GRU(5, 4), "match": nn.Linear(4, 4), "head": nn.Linear(16, 3)}
    return Run(slices_and_waste, rnn=nn.GRU(5, 6, bidirectional=True), **parts)


@pytest.mark.parametrize(
    ("make", "example", "number"),
    [
        (lambda: Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=nn.GRU(5, 6), head=nn.Linear(6, 3)), x(), 0),
        (lambda: FAMILIES["state_directions_joined_by_slices"]().model, x(), 1),
        (wasteful, x(), 2),
        (both, x(), 3),
        (lambda: FAMILIES["attention_scaled_by_the_size_of_a_head"]().model, x(), 4),
    ],
    ids=["plain", "constants", "everything", "both", "heads"],
)
def test_every_reading_is_needed_and_written_down(make, example, number) -> None:
    model, words = make().double(), READINGS[number].words
    groups = leanrnn.discover(model, example)
    assert groups.layers and not groups.pinned and groups.reading == words
    assert f"found {words}" in groups.explain(groups.names[0])
    again = leanrnn.Groups.from_json(groups.to_json(), model)
    assert again.reading == words
    before = json.loads(groups.to_json())
    del before["reading"]
    assert leanrnn.Groups.from_json(json.dumps(before)).reading == ""


def test_widths_that_were_joined_are_named_in_the_reading() -> None:
    def forward(m, x: Tensor) -> Tensor:
        h = g = x.new_zeros(x.size(1), m.width)
        for step in x:
            h, g = torch.tanh(m.a(torch.cat([step, h], 1))), torch.tanh(m.b(torch.cat([step, g], 1)))
        return m.head(torch.cat([h, g], 1))

    model = Run(forward, a=nn.Linear(11, 6), b=nn.Linear(11, 6), head=nn.Linear(12, 3))
    model.width = 6
    groups = leanrnn.discover(model.double(), x())
    assert groups.widths == {"a": 6} and groups.reading == f"{PLAIN.words}; a, b can only leave together"


class Cells(nn.Module):
    """Two cells whose states are made, or laid out, by one number."""

    def __init__(self, by_size: bool) -> None:
        super().__init__()
        self.size, self.by_size, self.a, self.b = 6, by_size, nn.Linear(11, 6), nn.Linear(11, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = b = x.new_zeros(x.size(1), self.size)
        for step in x:
            a, b = torch.tanh(self.a(torch.cat([step, a], -1))), torch.tanh(self.b(torch.cat([step, b], -1)))
        return a, b.view(-1, a.size(-1) if self.by_size else self.size)


class Pairs(nn.Module):
    """Two such pairs, and a layer that has nothing to do with them, all of one width."""

    def __init__(self, by_size: bool) -> None:
        super().__init__()
        self.one, self.two, self.rnn, self.head = Cells(by_size), Cells(by_size), nn.GRU(5, 6), nn.Linear(30, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([*self.one(x), self.rnn(x)[0][-1], *self.two(x)], -1))


@pytest.mark.parametrize("by_size", [False, True])
def test_pairs_that_can_only_shrink_together_are_found_among_others_as_wide(by_size: bool) -> None:
    model = Pairs(by_size).double()
    groups = leanrnn.discover(model, x())
    assert (set(groups.names), groups.pinned) == ({"one.a", "two.a", "rnn.l0"}, [])
    assert "one.a, one.b can only leave together; two.a, two.b can only leave together" in groups.reading
    small = cut(model, x(), {"one.a": [0, 5], "two.a": [1, 2, 3], "rnn.l0": [4]})
    assert small.head.in_features == 2 + 2 + 1 + 3 + 3


class Follows(nn.Module):
    """The last cell takes its first state from the size of the first one's; others between are as wide."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.between = nn.GRU(5, 6), nn.ModuleList(nn.GRU(5, 6) for _ in range(3))
        self.b, self.head = nn.Linear(11, 6), nn.Linear(30, 3)

    def forward(self, x: Tensor) -> Tensor:
        ends = [rnn(x)[1][0] for rnn in (self.a, *self.between)]
        last = x.new_zeros(x.size(1), ends[0].size(-1))
        for step in x:
            last = torch.tanh(self.b(torch.cat([step, last], -1)))
        return self.head(torch.cat([*ends, last], -1))


def test_a_width_is_joined_with_the_one_that_gives_it_its_size() -> None:
    model = Follows().double()
    groups = leanrnn.discover(model, x())
    assert groups.names == ["a.l0", "between.0.l0", "between.1.l0", "between.2.l0"]
    assert {"a.weight_hh_l0", "b.weight"} <= {strip.tensor for strip in groups["a.l0"].strips}
    cut(model, x(), {"a.l0": [2, 3], "between.0.l0": [0], "between.1.l0": [1, 2, 3]})
