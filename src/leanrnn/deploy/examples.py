"""An example that a trace can learn from: it runs, gives tensors, and no length that may vary is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from leanrnn.deploy.containers import packed_in, tensors_of, with_tensors
from leanrnn.deploy.lengths import Place
from leanrnn.deploy.libraries import quietly
from leanrnn.errors import ExportError
from leanrnn.running.call import call
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.refused import refused

__all__ = ["grown", "longer", "runs"]


def grown(model: nn.Module, example: Any) -> tuple[Any, Any]:
    """An example in which no batch and no time is of length 1, which tracing takes for a fixed one, and what the model
    makes of the one given. Whether an axis can grow is tried: alone, or with the first, second or third axes of the
    other inputs."""
    result = result_of(model, example)
    tensors = tensors_of(example)
    ones = [(i, axis) for i, leaf in enumerate(tensors) for axis, size in enumerate(leaf.shape) if size == 1]
    grown: tuple[Place, ...] = ()
    for place in ones:
        others = [other for other in ones if other not in grown and other[0] != place[0]]
        for along in () if place in grown else ((), *(tuple(p for p in others if p[1] == axis) for axis in range(3))):
            if runs(model, longer(example, (*grown, place, *along))):
                grown = (*grown, place, *along)
                break
    return (longer(example, grown), result_of(model, longer(example, grown))) if grown else (example, result)


def result_of(model: nn.Module, example: Any) -> Any:
    """What the model makes of an example, if a file can have it."""
    try:
        with quiet(model), torch.no_grad():
            result = call(model, copy_example(example))
    except Exception as error:
        raise ExportError(refused(model, example, error)) from error
    if not tensors_of(example):
        raise ExportError("the example holds no tensor, and a file takes tensors alone. Give the inputs as tensors.")
    if packed_in(result):
        raise ExportError(
            "the model returns a packed sequence, and the outputs of a file are plain tensors. Call "
            "pad_packed_sequence in its forward."
        )
    if not tensors_of(result):
        raise ExportError(
            f"the model returns no tensor but {type(result).__name__}, and a file gives tensors alone. Return tensors."
        )
    return result


def longer(example: Any, places: Iterable[Place], again: bool = False) -> Any:
    """The example with one more entry along some axes of its tensors; ``again`` repeats all of them first."""
    tensors = tensors_of(example)
    for i, axis in places:
        first = tensors[i].narrow(axis, 0, 1)
        tensors[i] = torch.cat([tensors[i], *([tensors[i]] if again else []), first], axis)
    return with_tensors(example, tensors)


def runs(model: nn.Module, example: Any) -> bool:
    """Whether the model takes it."""
    try:
        with quiet(model), quietly(), torch.no_grad():
            call(model, copy_example(example))
    except Exception:
        return False
    return True
