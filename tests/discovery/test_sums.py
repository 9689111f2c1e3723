"""Cells whose products are written as a parameter times data, summed over an axis."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.groups.norms import alive
from leanrnn.running.compare import difference, run
from tests.discovery.test_corners import cut, x
from tests.support.soaking import zeroed_by_hand


class LiquidCell(nn.Module):
    """Liquid time constants: a sigmoid for every synapse, weighted and summed over where it comes from."""

    def __init__(self, inputs: int, units: int, positive: bool = False) -> None:
        super().__init__()
        self.positive = positive
        for name, sources in (("inward", inputs), ("inner", units)):
            parts = [torch.rand(sources, units) + 0.1 for _ in range(4)]
            setattr(self, name, nn.ParameterList(parts))  # weight, sigma, mu, reversal
        self.leak = nn.Parameter(torch.rand(units) + 0.5)
        self.wiring = nn.Parameter((torch.rand(units, units) > 0.2).float(), requires_grad=False)

    def synapses(self, parts: nn.ParameterList, v: Tensor) -> tuple[Tensor, Tensor]:
        weight, sigma, mu, reversal = parts
        weight = nn.functional.softplus(weight) if self.positive else weight
        active = weight * torch.sigmoid(sigma * (v.unsqueeze(-1) - mu))
        active = active * self.wiring if len(active[0]) == len(self.wiring) else active
        return (active * reversal).sum(1), active.sum(1)

    def forward(self, step: Tensor, v: Tensor) -> Tensor:
        (above, below), (a, b) = self.synapses(self.inward, step), self.synapses(self.inner, v)
        return (v + above + a) / (1 + self.leak.abs() + below.abs() + b.abs())


class Liquid(nn.Module):
    def __init__(self, positive: bool = False) -> None:
        super().__init__()
        self.cell, self.head = LiquidCell(5, 6, positive), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        v = x.new_zeros(x.size(1), self.cell.leak.numel())
        for step in x:
            v = self.cell(step, v)
        return self.head(v)


def test_liquid_time_constants():
    model = Liquid().double()
    groups = leanrnn.discover(model, x())
    (layer,) = groups
    assert layer.width == 6 and not layer.needs_zero_bias and groups.pinned == []
    assert layer.readers == ("cell.inner.0", "cell.inner.3", "head.weight")
    assert layer.group_size == 2 * 5 + 2 * 12 + 3  # two weights inwards, two along both axes inside, the head
    roles = {s.tensor: s.role for s in layer.strips}
    assert roles["cell.inner.1"] == roles["cell.inner.2"] == roles["cell.leak"] == "bias"
    assert roles["cell.wiring"] == "carried"
    cut(model, x(), {layer.name: [0, 2, 3]})


def test_component_is_dead_when_its_weights_are_zero_whatever_the_sigmoid_is():
    """Only the weights are zeroed: thresholds and slopes of the dead stay what they are."""
    model = Liquid().double()
    groups = leanrnn.discover(model, x())
    (layer,) = groups
    with torch.no_grad():
        for strip in (s for s in layer.strips if s.role == "weight"):
            dict(model.named_parameters())[strip.tensor].index_fill_(strip.axis, torch.tensor([1, 4]), 0)
    assert alive(groups)[layer.name].tolist() == [True, False, True, True, False, True]
    given = x()
    assert difference(run(model, given), run(leanrnn.shrink(model, groups), given)) <= 1e-12


def test_weight_that_is_never_zero_pins_by_name():
    """The softplus of a zero is not zero."""
    groups = leanrnn.discover(Liquid(positive=True).double(), x())
    reason = dict(groups.pinned)["cell.inner"]
    assert len(groups) == 0 and "test_sums" in reason
    assert reason.startswith("is summed over by sum and is not zero when the component is at ")


@pytest.mark.parametrize("frozen", [False, True])
def test_state_read_by_a_vector(frozen):
    """A score that is written ``(h * v).sum(-1)`` reads as a product with ``v`` would."""

    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.v = nn.GRU(5, 6), nn.Parameter(torch.randn(6))

        def forward(self, x: Tensor) -> Tensor:
            return (self.rnn(x)[0] * self.v).sum(-1)

    model = Scored().double().requires_grad_(not frozen)
    groups = leanrnn.discover(model, x())
    assert groups["rnn.l0"].readers == ("v", "rnn.weight_hh_l0")
    keep = {"rnn.l0": [1, 2]}
    small, given = leanrnn.shrink(model, groups, keep=keep), x()
    assert difference(run(zeroed_by_hand(model, groups, keep), given), run(small, given)) <= 1e-12
