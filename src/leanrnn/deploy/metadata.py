"""What a file says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from leanrnn import __version__
from leanrnn.deploy.containers import tensors_of
from leanrnn.deploy.program import Program
from leanrnn.groups.costs import count_weights
from leanrnn.layers import RecurrentHighway, widths_of
from leanrnn.surgery.plan import whole_plan

__all__ = ["metadata_for"]


def metadata_for(model: nn.Module, program: Program, about: Mapping[str, Any] | None) -> dict[str, Any]:
    """Who wrote it, what goes in, widths of the layers, number of weights, what was cut, and what the user adds."""
    widths = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.RNNBase):
            widths[name] = list(widths_of(module, 0))
        elif isinstance(module, RecurrentHighway):
            widths[name] = [module.hidden_size]
    inputs = zip(program.inputs, tensors_of(program.example), strict=True)
    return {
        "version": __version__,
        "inputs": {name: list(shape) for name, shape in program.inputs.items()},
        "fixed": dict(program.fixed or {}),
        "notes": list(program.notes),
        "traced": program.axes,
        "lengths": list(program.lengths),
        "values": {name: _values(tensor) for name, tensor in inputs},
        "widths": widths,
        "weights": count_weights(model),
        "plan": whole_plan(model).to_json(),
        "about": dict(about or {}),
    }


def _values(tensor: Tensor) -> tuple[str, float, float]:
    """Type, smallest and largest number: words of a vocabulary are not any numbers."""
    kind = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor if tensor.numel() else tensor.new_zeros(1)
    return kind, tensor.min().item(), tensor.max().item()
