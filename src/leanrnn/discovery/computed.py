"""Numbers that code computes from a width, as the root that scales attention: another width is another function."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from leanrnn.discovery.recorder import record
from leanrnn.discovery.tape import Node, Tape
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.running.call import call, leaves
from leanrnn.running.copies import copy_example, copy_model
from leanrnn.running.quiet import quiet
from leanrnn.surgery.cut import cut_

__all__ = ["computed_number"]


def computed_number(model: nn.Module, groups: Groups, masks: Masks, example: Any) -> str | None:
    """The first number that is another one in the smaller model, in words; None if there is none to be seen."""
    small = copy_model(model)
    try:
        cut_(small, groups, masks, plain=True)
        before, after = _tape(model, example), _tape(small, example)
    except Exception:  # it says nothing more than that it fails
        return None
    for one, other in zip(before.nodes, after.nodes, strict=False):
        if one.name != other.name or one.where != other.where:
            return None
        for a, b in zip(_numbers(one), _numbers(other), strict=False):
            if not math.isclose(a, b, rel_tol=1e-6):
                return f"{a:.3g} in {one.name} at {one.where} becomes {b:.3g}"
    return None


def _tape(model: nn.Module, example: Any) -> Tape:
    given = copy_example(example)
    with quiet(model), torch.no_grad():
        return record(lambda: call(model, given), {}, leaves(given), leaves)[0]


def _numbers(node: Node) -> Iterator[float]:
    """Numbers among the arguments; lengths are none."""
    for argument, value in zip(node.op._schema.arguments, node.args, strict=False):
        if isinstance(value, float) or (type(value) is int and str(argument.type) in ("number", "Tensor")):
            yield float(value)
