"""Operators that take steps or pieces out along an axis, and writes into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from leanrnn.discovery.labels import Value, take
from leanrnn.discovery.rules.base import Call, rule, written
from leanrnn.discovery.rules.join import widened, write_at
from leanrnn.discovery.rules.kinds import Kind
from leanrnn.discovery.ties import Ties

__all__ = ["tie_pieces"]


@rule("aten.select", soft=True, kind=Kind.STEP | Kind.STATE)
def _select(call: Call) -> Value:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    index = int(call["index"]) % value.shape[dim]
    for factor in value.factors:
        if factor.main == {dim}:
            call.ties.pin(factor.labels, "is picked by position")
    return take(value, dim, index)


@written("aten.select")
def _write_selected(call: Call, base: Value, part: Value, index: int) -> Value:
    return _write_row(call, base, part, int(call["index"]))


def _write_row(call: Call, base: Value, part: Value, row: int) -> Value:
    dim = base.axis(call["dim"])
    return write_at(call, base, widened(part, dim), dim, np.array([row % base.shape[dim]]))


@rule("aten.slice", soft=True, kind=Kind.STEP | Kind.STRETCH)
def _slice(call: Call) -> Value:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    index = slice(call["start"], call["end"], call["step"])
    return take(value, dim, np.arange(value.shape[dim])[index])


@written("aten.slice")
def _write_sliced(call: Call, base: Value, part: Value, index: int) -> Value:
    dim = base.axis(call["dim"])
    places = np.arange(base.shape[dim])[slice(call["start"], call["end"], call["step"])]
    return write_at(call, base, part, dim, places)


@rule("aten.unbind", soft=True, kind=Kind.STEP | Kind.STATE)
def _unbind(call: Call) -> list[Value]:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    for factor in value.factors:
        if factor.main == {dim}:
            call.ties.pin(factor.labels, "is picked by position")
    return [take(value, dim, i) for i in range(value.shape[dim])]


@written("aten.unbind")
def _write_unbound(call: Call, base: Value, part: Value, index: int) -> Value:
    return _write_row(call, base, part, index)


@rule("aten.split", "aten.unsafe_split", "aten.split_with_sizes", "aten.unsafe_split_with_sizes",
      soft=True, kind=Kind.STEP | Kind.STRETCH)  # fmt: skip
def _split(call: Call) -> list[Value]:
    value: Value = call["self"]
    dim = value.axis(call["dim"])
    sizes = {shape[dim] for shape in call.shapes}
    if len(sizes) == 1:
        tie_pieces(call.ties, value, dim, len(call.shapes))
    elif "split_size" in call.arguments:
        call.ties.pin_value(value, [dim], "is cut into pieces of which the last is shorter")
    pieces, start = [], 0
    for shape in call.shapes:
        pieces.append(take(value, dim, np.arange(start, start + shape[dim])))
        start += shape[dim]
    return pieces


@written("aten.split", "aten.split_with_sizes")
def _write_piece(call: Call, base: Value, part: Value, index: int) -> Value:
    dim = base.axis(call["dim"])
    sizes: Any = call.get("split_sizes") or call.get("split_size")
    start = sum(sizes[:index]) if isinstance(sizes, (list, tuple)) else int(sizes) * index
    return write_at(call, base, part, dim, np.arange(start, start + part.shape[dim]))


def tie_pieces(ties: Ties, value: Value, dim: int, count: int) -> None:
    """Equal pieces must stay equal, whatever reads them: index k of each leaves together."""
    for factor in value.factors:
        if factor.main == {dim} and len(factor.axes) == 1 and ties.loose(factor.labels):
            pieces = factor.labels.reshape(count, -1)
            ties.tie(pieces[:1], pieces)
