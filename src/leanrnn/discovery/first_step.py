"""A layer that takes one step in the example: its state is the zeros of the first step, a constant that ties nothing.

The next step would read what this one made, so the columns that read the state belong to the rows that make it. That
holds of torch's own recurrent layers and of those of this library, whatever the example shows.
"""

from __future__ import annotations

from collections.abc import Callable

from leanrnn.discovery.labels import Labels, Value
from leanrnn.discovery.rules import Call, Kind
from leanrnn.discovery.tape import Node, Ref

__all__ = ["first_step"]

_GATES = 4
"""The most gates that one matrix of a recurrent layer makes."""

_FACTORS = (("input", "weight"), ("mat1", "mat2"), ("self", "mat2"))
"""What products call the data and the weight."""


def first_step(
    node: Node, call: Call, names: Callable[[int], list[str]], rows_of: dict[str, Labels]
) -> tuple[Labels, Labels, Labels] | None:
    """The columns of a recurrent weight that reads a constant, what they leave with, and the rows of the weight.

    ``names`` gives the parameters that a value is made of, if it is made of parameters alone; ``rows_of`` has the first
    axis of each parameter.
    """
    if not node.fused or node.scatter is not None or Kind.PRODUCT not in node.kind:
        return None
    pair = next((p for p in _FACTORS if all(map(node.has, p))), None)
    if pair is None or not isinstance(weight := node.argument(pair[1]), Ref):
        return None
    state, matrix = call[pair[0]], call[pair[1]]
    across = 1 if pair[1] == "weight" else 0
    if matrix.ndim != 2 or state.on(state.ndim - 1):
        return None
    name = next((n for n in names(weight.id) if "weight_hh" in n), None)
    if name is None:
        return None
    columns, rows = _line(matrix, across), _line(matrix, 1 - across)
    if columns is None or rows is None:
        return None
    projected = rows_of.get(name.replace("weight_hh", "weight_hr"))
    if projected is not None and projected.size == columns.size:
        return columns, projected, rows  # what weight_hr makes is the state
    gates, rest = divmod(rows.size, columns.size)
    # More rows than gates times columns: the state is a projection, made by a weight of another name.
    return (columns, rows.reshape(gates, -1), rows) if rest == 0 and gates <= _GATES else None


def _line(matrix: Value, axis: int) -> Labels | None:
    """The labels along an axis that has labels of its own."""
    return next((f.labels for f in matrix.on(axis) if f.axes == (axis,)), None)
