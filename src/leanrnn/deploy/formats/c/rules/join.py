"""Putting tensors together, and looking rows up."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leanrnn.deploy.formats.c.code import item, moved
from leanrnn.deploy.formats.c.lowering import Call, Lowering, rule

__all__: list[str] = []


@rule("cat", "concat", "stack")
def _joined(low: Lowering, call: Call) -> None:
    """Each part where it belongs."""
    tensors, result = call["tensors"], call.result
    axis = call["dim"] % result.dim()
    low.write(result, call.node.name)
    begin = 0
    for part in tensors:
        if not part.numel():
            continue
        wide = part if part.dim() == result.dim() else part.unsqueeze(axis)
        low.each(result.narrow(axis, begin, wide.shape[axis]), "{0}", wide)
        begin += wide.shape[axis]


@rule("embedding")
def _embedding(low: Lowering, call: Call) -> None:
    """A row of the table for every number."""
    table, words = call["weight"], call["indices"]
    if low.computed(table) or not low.computed(words):
        raise low.refused(call, "looks up in what only a run knows. A file of C looks up in weights.")
    node: Any = call.nodes["weight"]
    array = low.constant(table, str(getattr(node, "target", "table")).removeprefix("model."))
    low.code.tables[array] = table.shape[0]
    source, target, width = low.read(words, "words"), low.write(call.result, call.node.name), table.shape[1]
    for i in range(words.numel()):
        row = f"{width} * {item(moved(source, i), '0')} + i"
        low.code.add(f"for (int i = 0; i < {width}; i++)", f"    {item(moved(target, i * width))} = {array}[{row}];")


@rule("sum", "mean", "amax")
def _reduced(low: Lowering, call: Call) -> None:
    """Over some axes of a step."""
    x, result = call["self"], call.result
    given = call.given.get("dim")
    axes = sorted({a % x.dim() for a in ([given] if isinstance(given, int) else given or range(x.dim()))})
    if any(low.over_time(call.nodes["self"], axis) for axis in axes):
        raise low.refused(call, "reads all steps, and a file of C has one at a time. Keep a running sum as a state.")
    if call.given.get("dtype") not in (None, torch.float32):
        raise low.refused(call, f"gives {call['dtype']}, and a file of C computes in float32.")
    low.write(result, call.node.name)
    kept = _spread(result, x, axes)
    word = str(call.node.target)
    first = tuple(0 if axis in axes else slice(None) for axis in range(x.dim()))
    flat: Tensor = kept[first]
    low.each(flat, "{0}", x[first] if "amax" in word else 0.0)
    low.each(kept, "{0} < {1} ? {1} : {0}" if "amax" in word else "{0} + {1}", kept, x)
    if "mean" in word:
        low.each(flat, "{0} / {1}", flat, float(x.numel() // max(result.numel(), 1)))


def _spread(result: Tensor, x: Tensor, axes: list[int]) -> Tensor:
    """The result as broad as what it is made of."""
    if result.dim() != x.dim():
        for axis in axes:
            result = result.unsqueeze(axis)
    return result.expand(x.shape)
