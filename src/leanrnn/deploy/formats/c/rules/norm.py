"""Norms, and what becomes of a row as a whole."""

from __future__ import annotations

import torch

from leanrnn.deploy.formats.c.code import moved, number
from leanrnn.deploy.formats.c.lowering import Call, Lowering, rule
from leanrnn.deploy.formats.c.rules.product import name_of

__all__: list[str] = []


@rule("batch_norm")
def _batch_norm(low: Lowering, call: Call) -> None:
    """In evaluation it is a factor and a summand for every channel."""
    mean, var = call["running_mean"], call["running_var"]
    if call["training"] or mean is None:
        raise low.refused(call, "has no running mean. Let it track running statistics.")
    weight = torch.ones_like(mean) if call["weight"] is None else call["weight"]
    bias = torch.zeros_like(mean) if call["bias"] is None else call["bias"]
    factor = weight / (var + call["eps"]).sqrt()
    shape = (-1, *[1] * (call["input"].dim() - 2))
    low.write(call.result, call.node.name)
    name = low.module_of(call.node) or call.node.name
    scale, shift = factor.view(shape), (bias - mean * factor).view(shape)
    for tensor, word in ((scale, "factor"), (shift, "summand")):
        low.constant(tensor, f"{name}_{word}")
    low.each(call.result, "{0} * {1} + {2}", call["input"], scale, shift)


@rule("layer_norm", "rms_norm")
def _layer_norm(low: Lowering, call: Call) -> None:
    x, shape = call["input"], call["normalized_shape"]
    if any(low.over_time(call.nodes["input"], -1 - i) for i in range(len(shape))):
        raise low.refused(call, "reads all steps, and a file of C has one at a time.")
    size = int(torch.Size(shape).numel())
    source, target = low.read(x, f"{call.node.name}_in"), low.write(call.result, call.node.name)
    kind = "layer_norm" if "layer" in str(call.node.target) else "rms_norm"
    eps = call["eps"] if call["eps"] is not None else torch.finfo(torch.float32).eps
    affine = {"weight": torch.ones(size), "bias": torch.zeros(size)}
    for word in affine:
        if call.given.get(word) is not None:
            affine[word] = call[word]
    names = [
        low.constant(affine[w], name_of(call, w)) for w in (("weight", "bias") if kind == "layer_norm" else ("weight",))
    ]
    for i in range(x.numel() // size):
        low.code.call(kind, moved(target, i * size), moved(source, i * size), *names, number(float(eps)), size)


@rule("softmax", "log_softmax")
def _softmax(low: Lowering, call: Call) -> None:
    x = call["self"]
    axis = call["dim"] % x.dim()
    if low.over_time(call.nodes["self"], axis):
        raise low.refused(call, "reads all steps, and a file of C has one at a time.")
    if x.shape[axis + 1 :].numel() != 1:
        raise low.refused(call, "is not along the last axis. Transpose before.")
    size = x.shape[axis]
    source, target = low.read(x, f"{call.node.name}_in"), low.write(call.result, call.node.name)
    kind = str(call.node.target).removeprefix("aten.").partition(".")[0]
    for i in range(x.numel() // size):
        low.code.call(kind, moved(target, i * size), moved(source, i * size), size)
