"""Models that have shapes and no numbers: on the meta device, or fake."""

from __future__ import annotations

from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from leanrnn.errors import LeanRNNError
from leanrnn.groups.groups import named_tensors

__all__ = ["check_numbers", "without_numbers"]


def without_numbers(model: nn.Module, fake: bool = True) -> str:
    """The first parameter or buffer that has a shape and no numbers, on the meta device or, if asked for, fake."""
    tensors = named_tensors(model).items()
    return next((name for name, t in tensors if t.device.type == "meta" or (fake and isinstance(t, FakeTensor))), "")


def check_numbers(model: nn.Module, kind: type[LeanRNNError], fake: bool = True) -> None:
    """An error of this kind if the model has shapes alone; ``fake=False`` where a fake model may be tried out. ::

    check_numbers(model, ShrinkError)
    """
    if name := without_numbers(model, fake):
        raise kind(
            f"{name} has no numbers: it is on the meta device, or fake. Load the weights first; groups discovered "
            "without them fit the model with them, by groups.bind(model)."
        )
