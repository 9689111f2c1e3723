"""Models and examples that cannot be: every function of the library says so in the same words, with its own type."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.errors import (
    BudgetError,
    CheckpointError,
    ConfigError,
    DataError,
    DiscoveryError,
    ExportError,
    GroupsError,
    LeanRNNError,
    ShrinkError,
    UnsupportedModelError,
)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


def x() -> torch.Tensor:
    return torch.randn(5, 2, 4)


def on_meta() -> tuple[nn.Module, leanrnn.Groups, torch.Tensor]:
    with torch.device("meta"):
        model, example = Tagger(), x()
    return model, leanrnn.discover(model, example), example


NUMBERS: dict[str, tuple[type[LeanRNNError], Callable[[Any, Any, Any, Path], object]]] = {
    "shrink": (ShrinkError, lambda m, g, x, f: leanrnn.shrink(m, g, ratio=0.5)),
    "shrink to a budget": (ShrinkError, lambda m, g, x, f: leanrnn.shrink(m, g, budget=leanrnn.Budget(weights="50%"))),
    "shrink without a look": (ShrinkError, lambda m, g, x, f: leanrnn.shrink(m, g, verify=False)),
    "save": (CheckpointError, lambda m, g, x, f: leanrnn.save(m, f / "x.safetensors")),
    "export": (ExportError, lambda m, g, x, f: leanrnn.export(m, x, f / "x.onnx")),
    "measure": (DataError, lambda m, g, x, f: leanrnn.measure(m, x, seconds=0.01)),
    "fit latency": (BudgetError, lambda m, g, x, f: leanrnn.fit_latency(m, g)),
    "train": (GroupsError, lambda m, g, x, f: leanrnn.Sparsifier(g, strength=0.1)),
}


@pytest.mark.parametrize(("kind", "use"), NUMBERS.values(), ids=NUMBERS)
def test_a_model_without_numbers(kind, use, tmp_path):
    with pytest.raises(kind, match=r"lstm.weight_ih_l0 has no numbers: it is on the meta device, or fake. Load the"):
        use(*on_meta(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_groups_of_a_model_without_numbers_fit_one_with_them():
    groups, model = on_meta()[1], Tagger()
    small = leanrnn.shrink(model, groups.bind(model), ratio=0.5, example=x())
    assert small.lstm.hidden_size == 3


CALLS: dict[str, tuple[type[LeanRNNError], Callable[[nn.Module, Any, Path], object]]] = {
    "discover": (DiscoveryError, lambda m, example, f: leanrnn.discover(m, example)),
    "shrink": (
        ShrinkError,
        lambda m, example, f: leanrnn.shrink(m, leanrnn.discover(m, x()), ratio=0.5, example=example),
    ),
    "export": (ExportError, lambda m, example, f: leanrnn.export(m, example, f / "x.onnx")),
    "measure": (DataError, lambda m, example, f: leanrnn.measure(m, example, seconds=0.01)),
    "mult-adds": (DataError, lambda m, example, f: leanrnn.cost.mult_adds(m, example)),
}
ARRAY = np.zeros((5, 2, 4), np.float32)


@pytest.mark.parametrize(("kind", "use"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("example", [ARRAY, (ARRAY,), {"x": ARRAY}], ids=["array", "tuple", "dict"])
def test_an_array_of_numpy(kind, use, example, tmp_path):
    with pytest.raises(kind, match=r"test_refused.py:\d+: .*There is a NumPy array .* torch.from_numpy"):
        use(Tagger(), example, tmp_path)


@pytest.mark.parametrize(("kind", "use"), CALLS.values(), ids=CALLS)
def test_a_dict_with_another_name(kind, use, tmp_path):
    with pytest.raises(kind, match=r"The example gives y, and forward takes \(x: "):
        use(Tagger(), {"y": x()}, tmp_path)


def test_models_that_are_none():
    for model, told in ((Tagger, "the class Tagger"), (3, "a int")):
        with pytest.raises(UnsupportedModelError, match=f"discover was given {told} in place of a model"):
            leanrnn.discover(model, x())


def test_factories_that_are_none(tmp_path):
    path = tmp_path / "x.safetensors"
    leanrnn.save(Tagger(), path)
    for factory, told in (
        (Tagger(), r"lambda: Tagger\(...\)"),
        (lambda: (Tagger(), x()), "the factory returned a tuple"),
        (lambda: None, "returned a NoneType"),
    ):
        with pytest.raises(CheckpointError, match=told):
            leanrnn.load(path, factory)


def test_places_that_are_no_files(tmp_path):
    for use, kind in ((leanrnn.save, CheckpointError), (lambda m, p: leanrnn.export(m, x(), p), ExportError)):
        with pytest.raises(kind, match=r"there is no folder .*nowhere for x\.onnx\. Create it first"):
            use(Tagger(), tmp_path / "nowhere" / "x.onnx")
        (tmp_path / "made.onnx").mkdir(exist_ok=True)
        with pytest.raises(kind, match=r"made\.onnx is a folder\. Name a file to write"):
            use(Tagger(), tmp_path / "made.onnx")
    for use, kind in ((leanrnn.quantize, ExportError), (lambda p: leanrnn.load(p, Tagger), CheckpointError)):
        with pytest.raises(kind, match=r"made\.onnx is a folder\. Give the file"):
            use(tmp_path / "made.onnx")


def test_threads_that_are_none():
    model = Tagger()
    with pytest.raises(ConfigError, match="threads is 0"):
        leanrnn.fit_latency(model, leanrnn.discover(model, x()), threads=0)
