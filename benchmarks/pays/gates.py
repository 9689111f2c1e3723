"""Hard concrete gates to a target (L0): what ours is compared with, after Louizos et al. (2018) and Wang et al. (2020).

Every component has a gate between 0 and 1, drawn anew for every window. How open it is, is learned along with the
weights, and a Lagrangian whose multipliers rise with the excess draws the expected mult-adds down to the budget.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

import leanrnn
from benchmarks.pays.cases import example
from benchmarks.pays.train import Method, Task
from leanrnn.lab.language.model import LanguageModel

__all__ = ["Gates"]

BETA, LOW, HIGH = 2 / 3, -0.1, 1.1  # of the distribution, as published
OPEN = 2.5  # log alpha to begin with: 98 of 100 gates are open
RATE = 0.05  # of Adam, for log alpha
ASCENT = 4.0  # of the multipliers: the loss is the sum over a window, the excess a part of the dense model
WARM, REACHED, CUT = 0.2, 0.4, 0.5  # parts of all steps: gates begin, the target is the budget, gates are settled


class Reader(NamedTuple):
    """A weight that reads a layer, as it is without gates, and the component that each of its columns reads."""

    weight: torch.nn.Parameter
    whole: Tensor
    layer: str
    components: Tensor


class Gates(Method):
    """Warm up at full size, gates in three tenths of the steps, then the cut; what is left trains on."""

    def __init__(self, task: Task) -> None:
        self.task, self.step = task, 0
        self.logs: dict[str, Tensor] = {}
        self.multipliers = torch.zeros(2)
        self.readers: list[Reader] = []

    def attach(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """Gates for a model of its first widths."""
        if model.widths == self.task.case.config.widths:
            self.groups = leanrnn.discover(model, example())
            self.logs = {layer.name: torch.full((layer.width,), OPEN).requires_grad_() for layer in self.groups}
            self.optimizer = torch.optim.Adam(self.logs.values(), lr=RATE)

    def epoch(self, model: LanguageModel, epoch: int) -> LanguageModel:
        """When gates are settled, survivors keep what theirs left open, and the others go."""
        if epoch != round(CUT * self.task.case.config.epochs):
            return model
        worth = {name: logs.detach().sigmoid() for name, logs in self.logs.items()}
        self._close({name: _stretched(each) for name, each in worth.items()})
        small = leanrnn.shrink(model, self.groups, budget=self.task.case.budget, scores=worth)
        assert isinstance(small, LanguageModel)
        self.logs = {}
        return small

    def before_forward(self) -> None:
        """Draw the gates: a gate on a component is one on all weights that read it."""
        self.step += 1
        if self.logs and self.step > WARM * self.task.steps:
            self.gates = {name: _drawn(logs) for name, logs in self.logs.items()}
            self.readers = self._close({name: gate.detach() for name, gate in self.gates.items()})

    def before_step(self) -> None:
        """Whole weights again; from the gradients of the gated ones those of the gates, and of the weights."""
        if not self.readers:
            return
        slopes = {name: torch.zeros_like(gate) for name, gate in self.gates.items()}
        for weight, whole, layer, components in self.readers:
            assert weight.grad is not None
            slopes[layer].index_add_(0, components, (whole * weight.grad).sum(0))
            weight.grad.mul_(self.gates[layer].detach()[components])
            weight.data.copy_(whole)
        self.readers = []
        self.optimizer.zero_grad()
        felt = torch.stack([(self.gates[name] * slopes[name]).sum() for name in slopes]).sum()
        excess = self._excess()
        (felt + self.multipliers[0] * excess + self.multipliers[1] * excess**2).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        now = excess.detach()
        self.multipliers += ASCENT * torch.stack([now, now**2])

    def _excess(self) -> Tensor:
        """Expected mult-adds less today's target, as a part of the dense model's."""
        cost, case = self.groups.costs.mult_adds, self.task.case
        opened = {name: (logs - BETA * math.log(-LOW / HIGH)).sigmoid().sum() for name, logs in self.logs.items()}
        whole = cost.at(self.groups.widths)
        way = min(1.0, (self.step / self.task.steps - WARM) / (REACHED - WARM))
        target = 1 - way * (1 - 1 / case.times)
        return cost.at(opened) / whole - target  # type: ignore[type-var]

    def _close(self, gates: dict[str, Tensor]) -> list[Reader]:
        """Multiply the columns that read components by their gates; what was there before."""
        found, tensors = [], self.groups.tensors()
        for layer in self.groups:
            for strip in layer.strips:
                if strip.reader and strip.role == "weight":  # all of it: columns of matrices, one after the other
                    weight, components = tensors[strip.tensor], torch.as_tensor(strip.components)
                    assert strip.axis == 1 and len(components) == weight.size(1)
                    assert isinstance(weight, torch.nn.Parameter)
                    found.append(Reader(weight, weight.detach().clone(), layer.name, components))
                    weight.data.mul_(gates[layer.name][components])
        return found


def _drawn(logs: Tensor) -> Tensor:
    noise = torch.rand_like(logs).clamp(1e-6, 1 - 1e-6)
    return _stretched(((noise.logit() + logs) / BETA).sigmoid())


def _stretched(opened: Tensor) -> Tensor:
    return (opened * (HIGH - LOW) + LOW).clamp(0, 1)
