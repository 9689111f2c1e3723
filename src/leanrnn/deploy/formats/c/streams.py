"""Which axes of a model are its steps and its sequences: a file of C takes one of each."""

from __future__ import annotations

from typing import Any

from torch import nn

from leanrnn.deploy.lengths import named, words_in
from leanrnn.deploy.program import Program, trace

__all__ = ["traced"]

Held = frozenset[tuple[int, int]]


def traced(model: nn.Module, example: Any, held: Held) -> Program:
    """With the names batch and time, and no other length that may vary."""
    program = _named(trace(model, example, held))
    if others := [word for word in program.axes if word not in ("batch", "time")]:
        program = _named(trace(model, example, held.union(*(program.places(word) for word in others))))
    return program


def _named(program: Program) -> Program:
    """Without a recurrent layer, what convolutions read along is the time, and a first axis the batch."""
    words = {word for word in program.axes if word not in ("batch", "time")}
    same: dict[str, str] = {}
    if "time" not in program.axes:
        along = [_along(node, program) for node in program.exported.graph.nodes if "conv1d" in str(node.target)]
        same |= {word: "time" for word in along[:1] if word in words}
    if "batch" not in program.axes:
        first = [shape[0] for shape in program.inputs.values() if shape and shape[0] in words - same.keys()]
        same |= {str(word): "batch" for word in first[:1]}
    return program.renamed(same)


def _along(node: Any, program: Program) -> str:
    """The length of the last axis of what a node reads: of several in it that of the first input, not of a state."""
    size = named(node.args[0].meta["val"].shape[-1], program.names)
    return next((word for shape in program.inputs.values() for word in shape if word in words_in(size)), "")
