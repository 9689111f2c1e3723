"""Habits of published code, each as the smallest model that has it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import leanrnn
import tests.support.families_newer  # noqa: F401  (registers more families)
from leanrnn.errors import UnsupportedModelError
from tests.discovery.test_corners import cut, x
from tests.support.families import FAMILIES, Run


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
        leanrnn.shrink(copy.deepcopy(model), groups, keep={"rnn": [0, 2]})


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


class Keeps(nn.Module):
    """States kept on the module from one call to the next, in the forms people use."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.rnn, self.head, self.form = nn.GRU(5, 6), nn.Linear(6, 3), form
        if form == "buffer":
            self.register_buffer("h", torch.zeros(1, 2, 6))
        self.kept: Any = {"list": [None], "dict": {"h": None}}.get(form)

    def forward(self, x: Tensor) -> Tensor:
        before = self.h if self.form == "buffer" else self.kept
        before = before[0] if self.form == "list" else before["h"] if self.form == "dict" else before
        out, h = self.rnn(x, before)
        h = h.detach()
        if self.form == "buffer":
            self.h.copy_(h)
        else:
            self.kept = {"list": [h], "dict": {"h": h}}.get(self.form, h)
        return self.head(out)


@pytest.mark.parametrize("form", ["attribute", "list", "dict", "buffer"])
def test_state_kept_on_the_module_is_cut_along(form: str) -> None:
    model = Keeps(form).double()
    model(x())
    before = copy.deepcopy(model.kept)
    small = cut(model, x(), {"rnn.l0": [0, 2, 3]})
    assert type(small.rnn) is nn.GRU and small.rnn.hidden_size == 3
    assert small(x()).shape == small(x()).shape == (4, 2, 3)
    torch.testing.assert_close(model.kept, before)


class WritesIntoList(nn.Module):
    """States of two layers in one list, written in place; cells by hand, so that nobody accepts a former width."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(11, 6), nn.Linear(12, 6)])
        self.head, self.states, self.window = nn.Linear(6, 3), [torch.zeros(2, 6).double()] * 2, torch.rand(6).double()

    def forward(self, x: Tensor) -> Tensor:
        for step in x:
            for i, cell in enumerate(self.cells):
                step = self.states[i] = torch.tanh(cell(torch.cat([step, self.states[i]], -1)))
        return self.head(step * self.window)


def test_tensors_held_by_modules_leave_with_their_components(tmp_path: Any) -> None:
    model = WritesIntoList().double()
    with torch.no_grad():
        model(x())
    before = copy.deepcopy(model.states)
    small = cut(model, x(), {"cells.0": [1, 2], "cells.1": [0, 1, 5]})
    torch.testing.assert_close(model.states, before)
    torch.testing.assert_close(small.states, [before[0][:, [1, 2]], before[1][:, [0, 1, 5]]])
    torch.testing.assert_close(small.window, model.window[[0, 1, 5]])
    leanrnn.save(small, tmp_path / "small.safetensors")
    again = leanrnn.load(tmp_path / "small.safetensors", lambda: WritesIntoList().double())
    again.window, again.states = small.window, list(small.states)
    given = x()
    torch.testing.assert_close(again(given), small(given))
    groups = leanrnn.discover(model, given)
    text = leanrnn.Groups.from_json(groups.to_json(), model)
    twice = leanrnn.shrink(model, text, keep={"cells.0": [3]}, example=given)
    assert twice.states[0].shape == (2, 1)


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")


@pytest.mark.parametrize(
    ("wrap", "prefix", "shown"), [(nn.DataParallel, "module", "module."), (compiled, "_orig_mod", "")]
)
def test_wrapped_models(wrap: Any, prefix: str, shown: str) -> None:
    model = wrap(Run(head, rnn=nn.LSTM(5, 6, 2), head=nn.Linear(6, 3)))
    small = cut(model, x(), {f"{shown}rnn.l0": [0, 1, 2], f"{shown}rnn.l1": [4, 5]})
    assert type(small) is type(model) and getattr(small, prefix).rnn.hidden_size == (3, 2)
    given = x()
    torch.testing.assert_close(small(given), getattr(small, prefix)(given))


def leaky(m: Any, x: Tensor) -> Tensor:
    """A time constant of its own for every unit, which is divided by."""
    h = x.new_zeros(x.size(1), m.u.in_features)
    for step in x:
        h = h + (torch.tanh(m.w(step) + m.u(h)) - h) / m.tau
    return m.head(h)


def test_what_is_divided_by_leaves_as_the_number_it_is() -> None:
    model = Run(leaky, w=nn.Linear(5, 6), u=nn.Linear(6, 6), head=nn.Linear(6, 3))
    model.tau = nn.Parameter(1 + torch.rand(6))
    roles = {s.tensor: s.role for s in leanrnn.discover(model.double(), x())["u"].strips}
    assert roles["tau"] == "carried" and roles["u.bias"] == "bias"
    assert cut(model, x(), {"u": [0, 4]}).tau.shape == (2,)


def repeated(m: Any, x: Tensor) -> Tensor:
    out = m.rnn(x)[0]
    return m.head((m.score(out).softmax(0).repeat(1, 1, out.size(-1)) * out).sum(0))


def reversed_units(m: Any, x: Tensor) -> Tensor:
    out = m.rnn(x)[0]
    return m.head(out.index_select(2, torch.tensor(range(out.size(2))[::-1])))


def past(m: Any, x: Tensor) -> Tensor:
    """Attention over the states so far, of which there is one at first."""
    states = [x.new_zeros(x.size(1), m.cell.hidden_size)]
    for step in x:
        seen = torch.stack(states, 1)
        mixed = torch.einsum("bt,bth->bh", m.score(seen).squeeze(-1).softmax(1), seen)
        states.append(m.cell(step, mixed))
    return m.head(states[-1])


def masked(m: Any, x: Tensor) -> Tensor:
    """The states of some rows only, put back among zeros."""
    out = m.rnn(x)[0]
    chosen = torch.arange(x.size(1)) != 0
    spread = out.new_zeros(x.size(1), out.size(-1)).masked_scatter(chosen.unsqueeze(-1), out[-1][chosen])
    return m.head(spread)


def written(m: Any, x: Tensor) -> Tensor:
    out = m.rnn(x)[0]
    chosen = torch.arange(x.size(1)) != 0
    spread = out.new_zeros(x.size(1), out.size(-1))
    spread[chosen] = out[-1][chosen]
    return m.head(spread)


@pytest.mark.parametrize("forward", [repeated, reversed_units, masked, written])
def test_states_spread_chosen_and_reversed(forward: Any) -> None:
    model = Run(forward, rnn=nn.GRU(5, 6), score=nn.Linear(6, 1), head=nn.Linear(6, 3))
    assert cut(model, x(), {"rnn.l0": [0, 3, 4]}).rnn.hidden_size == 3


def test_attention_over_its_own_past() -> None:
    model = Run(past, cell=nn.GRUCell(5, 6), score=nn.Linear(6, 1), head=nn.Linear(6, 3))
    assert cut(model, x(), {"cell": [0, 3, 4]}).cell.hidden_size == 3


class Rotating(nn.Module):
    """A linear recurrence of complex numbers that keeps its complex state."""

    def __init__(self) -> None:
        super().__init__()
        self.decay, self.inward = nn.Parameter(torch.rand(6)), nn.Parameter(torch.randn(6, 5, dtype=torch.cdouble))
        self.outward, self.state = (
            nn.Parameter(torch.randn(3, 6, dtype=torch.cdouble)),
            torch.zeros(6, dtype=torch.cdouble),
        )

    def forward(self, x: Tensor) -> Tensor:
        outs = []
        for step in x[:, 0]:
            self.state = torch.polar(self.decay, self.decay) * self.state + self.inward @ step.to(self.inward.dtype)
            outs.append((self.outward @ self.state).real)
        self.state = torch.zeros_like(self.state)
        return torch.stack(outs)


def test_complex_state_kept_on_the_module_is_cut_along() -> None:
    small = cut(Rotating().double(), x(), {"inward": [0, 2, 3]})
    assert small.state.shape == (3,) and small.state.is_complex()


def test_heads_of_weights_and_what_they_multiply_are_one_width_without_a_trial() -> None:
    family = FAMILIES["gates_of_block_diagonal_weights"]()
    groups = leanrnn.discover(family.model, family.example, prove=False)
    assert groups.widths == family.widths and groups.pinned == [("write", "has a single component")]
