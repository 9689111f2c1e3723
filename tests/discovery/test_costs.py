"""Costs that discovery finds: of every family and of random architectures, beside torch's count, whole and cut."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import leanrnn
import tests.support.families_heads  # registers more families
import tests.support.families_more
import tests.support.families_newer  # noqa: F401
from leanrnn.cost import mult_adds
from leanrnn.layers.recurrent import widths_of
from leanrnn.running.steps import Steps
from tests.discovery.test_known_answers import LanguageModel
from tests.support.architectures import build
from tests.support.families import FAMILIES, RHN, Run


def padded(module):
    if not isinstance(module, nn.LSTM) or not module.proj_size:
        return False
    return any(h == c for h, c in zip(widths_of(module, 0), widths_of(module, 1), strict=True))


def assert_exact(model, groups, widths, example):
    costs = groups.costs
    small = model if widths == groups.widths else leanrnn.shrink(model, groups, keep_widths=widths, verify=False)
    assert costs.weights.at(widths) == sum(p.numel() for p in small.parameters())
    assert costs.bytes.at(widths) == sum(p.numel() * p.element_size() for p in small.parameters())
    # Torch has no projection to the width of the state: one more component, of zeros, runs in such a layer.
    if not any(padded(module) for module in small.modules()):
        assert costs.mult_adds.at(widths) == mult_adds(small, example)
    assert all(type(number) is int for number in costs.mult_adds.terms.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name):
    family = FAMILIES[name]()
    # Without the proof, which takes long; one family is only known as it is after one.
    prove = name == "state_directions_joined_by_slices"
    groups = leanrnn.discover(family.model.eval(), family.example, prove=prove)
    rng = random.Random(0)
    assert_exact(family.model, groups, groups.widths, family.example)
    # Unequal: nothing may rely on equal widths.
    order = rng.sample(range(1, 6), len(groups)) if len(groups) < 6 else [3] * len(groups)
    widths = {layer.name: min(layer.width, n) for layer, n in zip(groups, order, strict=True)}
    assert_exact(family.model, groups, widths, family.example)
    assert groups.costs.notes == ()


@pytest.mark.parametrize("seed", range(400, 440))
def test_random_architectures(seed):
    rng = random.Random(seed)
    built = build(rng)
    groups = leanrnn.discover(built.model.eval(), built.example, scope=rng.choice(["all", "recurrent"]))
    assert_exact(built.model, groups, groups.widths, built.example)
    if groups.layers:
        widths = {layer.name: rng.randint(1, layer.width) for layer in groups}
        assert_exact(built.model, groups, widths, built.example)


@pytest.mark.parametrize(
    ("width", "widths", "millions", "weights"),
    [(1500, (1500, 1500), 51.0, 66.0), (1500, (373, 315), 6.81, 21.8), (1500, (381, 535), 10.17, 25.2)],
)
def test_penn_treebank(width, widths, millions, weights):
    with torch.device("meta"):
        groups = leanrnn.discover(LanguageModel(width), torch.zeros(3, 2, dtype=torch.long))
    at = dict(zip(groups.names, widths, strict=True))
    assert groups.costs.mult_adds.at(at) / 6 / 1e6 == pytest.approx(millions, abs=0.01)
    assert groups.costs.weights.at(at) / 1e6 == pytest.approx(weights, abs=0.05)
    a, b = groups.names
    assert groups.costs.mult_adds.terms == {(a,): 6 * 4 * 1500, (a, a): 24, (a, b): 24, (b, b): 24, (b,): 60_000}
    assert groups.costs.mult_adds.marginal(at, a) == 24 * (1500 + 2 * at[a] - 1 + at[b])


def test_recurrent_highway_network():
    with torch.device("meta"):
        groups = leanrnn.discover(RHN(10000, 830, 10), torch.zeros(3, 1, dtype=torch.long))
    assert groups.costs.mult_adds.at(groups.widths) == 3 * (830 * 10_000 + 2 * 830 * 11 * 830)


class Stepping(nn.Module):
    """One step at a call, whose state the caller keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h = self.cell(x, h)
        return self.head(h), h


def test_steps_count_as_one_call():
    model, x = Stepping(), torch.randn(2, 4)
    groups = leanrnn.discover(model, x)
    assert isinstance(groups.example, Steps)
    assert groups.costs.mult_adds.at(groups.widths) == mult_adds(model, x) == 2 * (3 * 6 * 10 + 12)
    assert_exact(model, groups, {"cell": 4}, x)


def test_what_runs_for_nothing_is_counted():
    def forward(m, x):
        m.unread(x).relu()
        out, _ = m.rnn(x)
        m.unread(out[..., :5])
        return m.head(out)

    model = Run(forward, rnn=nn.LSTM(5, 6), unread=nn.Linear(5, 7), head=nn.Linear(6, 2))
    groups = leanrnn.discover(model, torch.randn(3, 2, 5))
    assert_exact(model, groups, groups.widths, torch.randn(3, 2, 5))


def test_vectors_and_other_products():
    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.both = nn.GRU(5, 6), nn.Bilinear(6, 6, 3)
            shapes = {"w": (7, 6), "b": (7,), "v": (6,), "k": (3, 6, 4), "kb": (4,)}
            self.p = nn.ParameterDict({name: torch.randn(*shape) for name, shape in shapes.items()})

        def forward(self, x: Tensor) -> Tensor:
            y, h = self.rnn(x)
            h = h[-1, 0]
            a = torch.mv(self.p["w"], h) + torch.addmv(self.p["b"], self.p["w"], h)
            q = torch.addr(torch.zeros(7, 7), a, a).sum() + torch.dot(self.p["v"], h)
            batches = y.transpose(0, 1)[:, :2], y.permute(1, 2, 0)[..., :2]
            q = q + torch.addbmm(torch.zeros(2, 2), *batches).sum()
            return q + torch.conv_tbc(y, self.p["k"], self.p["kb"], 1).sum() + self.both(y[-1], y[-2]).sum()

    model, x = Products(), torch.randn(8, 2, 5)
    groups = leanrnn.discover(model, x)
    for width in (6, 4, 1):
        assert_exact(model, groups, {"rnn.l0": width}, x)


class Synapses(nn.Module):
    """A number for every pair of units, and no matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.into, self.head = nn.Parameter(torch.randn(6, 6)), nn.Linear(5, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[1], self.w.shape[0])
        for step in x:
            h = torch.tanh(self.into(step) + (self.w * h.unsqueeze(-1)).sum(1) * 0.5)
        return self.head(h)


def test_what_is_not_counted_is_said():
    groups = leanrnn.discover(Synapses(), torch.randn(3, 2, 5))
    assert any("a sum of numbers times a parameter, is not counted" in note for note in groups.costs.notes)
    assert groups.costs.weights.at({name: 3 for name in groups.names}) == 9 + 3 * 6 + 3 * 2 + 2


def test_an_uneven_axis_is_no_cheaper_than_it_is():
    def forward(m, x):
        out, _ = m.rnn(x)
        return m.head(torch.cat([out, out[..., :2]], -1))

    model = Run(forward, rnn=nn.LSTM(5, 6), head=nn.Linear(8, 2))
    groups = leanrnn.discover(model, torch.randn(3, 2, 5))
    rng = np.random.default_rng(0)
    for layer in groups:
        kept = rng.permutation(layer.width)[: layer.width // 2 + 1]
        small = leanrnn.shrink(model, groups, keep={layer.name: kept})
        widths = groups.widths | {layer.name: len(kept)}
        assert groups.costs.mult_adds.at(widths) >= mult_adds(small, torch.randn(3, 2, 5))
