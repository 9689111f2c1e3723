"""Models that cannot be taken apart are refused before anything runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leanrnn.errors import DiscoveryError, UnsupportedModelError
from leanrnn.groups.groups import named_tensors
from leanrnn.groups.wrapped import check_whole
from leanrnn.running.call import leaves

__all__ = ["check_supported"]


def check_supported(model: object, example: Any) -> None:
    """Refuse what cannot be taken apart, with a word on what to do instead."""
    if not isinstance(model, nn.Module):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise UnsupportedModelError(f"discover was given {what} in place of a model. Pass an nn.Module that was made.")
    for name, module in model.named_modules():
        where = name or "the model"
        if isinstance(module, torch.jit.ScriptModule) and _has_weights(module):
            raise UnsupportedModelError(
                f"{where} is a TorchScript module, whose weights are frozen into a program. Pass the Python module."
            )
        if "quantized" in type(module).__module__:
            raise UnsupportedModelError(
                f"{where} is quantised ({type(module).__name__}). Shrink the float model first, then quantise."
            )
    check_whole(named_tensors(model))
    for name, tensor in named_tensors(model).items():
        if tensor.is_quantized:
            raise UnsupportedModelError(
                f"{name} is quantised ({tensor.dtype}). Shrink the float model first, then quantise."
            )
        if isinstance(tensor, (nn.parameter.UninitializedParameter, nn.parameter.UninitializedBuffer)):
            raise UnsupportedModelError(f"{name} has no shape yet. Run the model once before discover.")
    mine, given = {p.device.type for p in model.parameters()}, {t.device.type for t in leaves(example)}
    if mine and given and not mine & given:
        raise DiscoveryError(f"the example is on {given.pop()} and the model on {mine.pop()}. Move one of them.")


def _has_weights(program: torch.jit.ScriptModule) -> bool:
    """Whether a compiled program holds weights: as parameters, or as matrices that freezing wrote into it."""
    if any(True for _ in program.parameters()):
        return True
    graph = getattr(program, "inlined_graph", None)
    constants = graph.findAllNodes("prim::Constant", recurse=True) if graph is not None else []
    tensors = [node.t("value") for node in constants if node.hasAttribute("value") and node.kindOf("value") == "t"]
    return any(t.is_floating_point() and t.dim() > 1 for t in tensors)
