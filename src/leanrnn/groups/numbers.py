"""Models that have shapes and no numbers: on the meta device, or fake."""

from __future__ import annotations

from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from leanrnn.errors import LeanRNNError
from leanrnn.groups.groups import named_tensors

__all__ = ["check_numbers", "without_numbers"]


def without_numbers(model: nn.Module) -> str:
    """The first parameter or buffer that has a shape and no numbers, on the meta device or fake; empty if none."""
    tensors = named_tensors(model).items()
    return next((name for name, t in tensors if t.device.type == "meta" or isinstance(t, FakeTensor)), "")


def check_numbers(model: nn.Module, kind: type[LeanRNNError]) -> None:
    """An error of this kind if the model has shapes alone. ::

    check_numbers(model, ShrinkError)
    """
    if name := without_numbers(model):
        raise kind(
            f"{name} has no numbers: it is on the meta device, or fake. Load the weights first; groups discovered "
            "without them fit the model with them, by groups.bind(model)."
        )
