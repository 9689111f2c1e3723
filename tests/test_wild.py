"""Habits of published code, each as the smallest model that has it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from families import Run
from test_corners import cut, x
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import UnsupportedModelError


def head(m: Any, x: Tensor) -> Tensor:
    return m.head(m.rnn(x)[0])


def replace_forward(module: nn.Module, name: str) -> None:
    """Weight drop by a new forward, which holds on to the module it was made for."""
    module.register_parameter(f"{name}_raw", nn.Parameter(module._parameters.pop(name).detach()))
    forward, held = module.forward, {"of": [module]}

    def dropped(*args: Any) -> Any:
        for owner in held["of"]:
            setattr(owner, name, nn.functional.dropout(getattr(owner, f"{name}_raw"), 0.3, owner.training))
        return forward(*args)

    module.forward = dropped


def test_replaced_forward_runs_the_copy_and_not_the_original() -> None:
    model = Run(head, rnn=nn.LSTM(5, 6), head=nn.Linear(6, 3)).double().eval()
    replace_forward(model.rnn, "weight_hh_l0")
    before, groups = model(x()).shape, leanrnn.discover(model, x())
    small = leanrnn.shrink(model, groups, keep={"rnn": [0, 2]})
    assert small.rnn.weight_hh_l0_raw.shape == (8, 2) and model(x()).shape == before
    with pytest.raises(UnsupportedModelError, match="outside of this model"):
        leanrnn.shrink(copy.deepcopy(model), groups)


class WeightDrop(nn.Module):
    """Weight drop by a wrapper: the raw weight is its own, and the module's becomes an attribute set in every run."""

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name
        self.register_parameter(f"{name}_raw", nn.Parameter(module._parameters.pop(name).detach()))

    def forward(self, *args: Any) -> Any:
        raw = getattr(self, f"{self.name}_raw")
        setattr(self.module, self.name, nn.functional.dropout(raw, 0.3, self.training))
        return self.module(*args)


@pytest.mark.parametrize("training", [False, True])
def test_weight_drop_wrapper(training: bool) -> None:
    rnn = WeightDrop(nn.LSTM(5, 6, 2), "weight_hh_l0")
    model = Run(head, rnn=rnn, head=nn.Linear(6, 3)).train(training)
    small = cut(model, x(), {"rnn": [0, 2, 3], "rnn.module.l1": [0, 1, 4, 5]})
    assert small.rnn.weight_hh_l0_raw.shape == (12, 3)
