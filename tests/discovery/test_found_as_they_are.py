"""Models as people have them: used before for a prediction, with parts compiled by TorchScript."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import UnsupportedModelError
from tests.discovery.test_corners import cut, x

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch says so of TorchScript


class Remembers(nn.Module):
    """An LSTM that goes on where the last call ended; written in place or anew, in containers of every kind."""

    def __init__(self, form: str, in_place: bool) -> None:
        super().__init__()
        self.rnn, self.norm, self.head = nn.LSTM(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.form, self.in_place, self.kept = form, in_place, None
        self.register_buffer("h", None)
        self.register_buffer("c", None)

    def states(self) -> Any:
        if self.form == "buffer":
            return None if self.h is None else (self.h, self.c)
        return self.kept if self.kept is None or self.form != "dict" else (self.kept["h"], self.kept["c"])

    def forward(self, x: Tensor) -> Tensor:
        before = self.states()
        out, (h, c) = self.rnn(x, before if before is None else tuple(before))
        if self.in_place and before is not None:
            before[0].copy_(h)
            before[1].copy_(c)
        elif self.form == "buffer":
            self.h, self.c = h, c
        else:
            self.kept = {"dict": {"h": h, "c": c}, "list": [h, c], "tuple": (h, c)}[self.form]
        return self.head(self.norm(out.flatten(0, 1)).view(out.shape))


@pytest.mark.parametrize("form", ["tuple", "list", "dict", "buffer"])
@pytest.mark.parametrize("in_place", [False, True])
def test_states_of_a_prediction_under_inference_mode(form: str, in_place: bool) -> None:
    model = Remembers(form, in_place).double()
    with torch.inference_mode():
        model(x())
    before = [state.clone() for state in model.states()]
    small = cut(model, x(), {"rnn.l0": [0, 2, 3]})
    assert all(now.is_inference() for now in model.states())
    torch.testing.assert_close(list(model.states()), before)
    torch.testing.assert_close(list(small.states()), [state[..., [0, 2, 3]] for state in before])


def test_a_model_that_was_built_under_inference_mode() -> None:
    with torch.inference_mode():
        model = Remembers("buffer", True).double()
    assert leanrnn.discover(model, x(), scope="all").names == ["rnn.l0"]


class Squash(nn.Module):
    """What people script: arithmetic with a few numbers of its own."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(1 if width is None else width).double())

    def forward(self, x: Tensor) -> Tensor:
        half = x * self.scale
        return torch.tanh(half) * torch.sigmoid(half)


class Scripted(nn.Module):
    def __init__(self, between: Any) -> None:
        super().__init__()
        self.rnn, self.between, self.head = nn.LSTM(5, 6, bidirectional=True), between, nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.between(self.rnn(x)[0]))


PARTS = {
    "script": lambda: torch.jit.script(Squash()),
    "trace": lambda: torch.jit.trace(Squash(), torch.rand(4, 2, 12).double()),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(Squash().eval())),
    "function": lambda: torch.jit.script(squash),
}


def squash(x: Tensor) -> Tensor:
    return torch.tanh(x) * torch.sigmoid(x)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("scope", "called"), [("recurrent", 0), ("all", 3)])
def test_a_compiled_part_without_weights_is_run_through(part: str, scope: Any, called: int, tmp_path: Any) -> None:
    model = Scripted(PARTS[part]()).double()
    for _ in range(called):  # TorchScript compiles anew after a few calls
        model(x())
    assert leanrnn.discover(model, x(), scope=scope).names == ["rnn.l0", "rnn.l0_reverse"]
    small = cut(model, x(), {"rnn.l0": [1, 4], "rnn.l0_reverse": [0, 2, 5]})
    leanrnn.save(small, tmp_path / "small.safetensors")
    again = leanrnn.load(tmp_path / "small.safetensors", lambda: Scripted(model.between).double())
    given = x()
    torch.testing.assert_close(again(given), small(given))


def test_numbers_as_wide_as_the_state_inside_a_compiled_part_hold_it() -> None:
    model = Scripted(torch.jit.script(Squash(12))).double()
    groups = leanrnn.discover(model, x())
    assert [name for name, _ in groups.pinned] == ["rnn.l0", "rnn.l0_reverse"]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_compiled_part_with_weights_is_refused_by_name(frozen: bool) -> None:
    part = torch.jit.script(nn.Linear(12, 12).double().eval())
    with pytest.raises(UnsupportedModelError, match=r"between is a TorchScript module.*weights"):
        leanrnn.discover(Scripted(torch.jit.freeze(part) if frozen else part).double(), x())
