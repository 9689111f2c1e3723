"""Matrices as a whole: diagonals, triangles, decompositions."""

from __future__ import annotations

from collections.abc import Sequence

from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, fixed_axes, pin_axes, rule, seen_whole, unsure_value
from leanrnn.discovery.rules.pointwise import pointwise_values
from leanrnn.discovery.ties import Ties


def _square(value: Value, dims: Sequence[int]) -> bool:
    """Whether two axes are as long and have labels of their own, so that index k of both can leave together."""
    lines = [f for f in value.factors if set(f.axes) & set(dims)]
    return value.shape[dims[0]] == value.shape[dims[1]] and all(len(f.axes) == 1 for f in lines)


@rule("aten.diagonal")
def _diagonal(call: Call) -> Value:
    """Row k and column k of a square leave together; beside the main diagonal they cannot."""
    value: Value = call["self"]
    dims = [value.axis(int(call["dim1"])), value.axis(int(call["dim2"]))]
    left = [a for a in range(value.ndim) if a not in dims]
    to = {a: i for i, a in enumerate(left)}
    if int(call["offset"]) == 0 and _square(value, dims):
        lines = [f.moved({d: len(left)}) for d in dims for f in value.on(d)]
        sides = [Value(call.shape, (line,)) for line in lines]
        new = pointwise_values(call.ties, sides, call.shape, [(i,) for i in range(len(sides))]).factors
    else:
        new = fixed_axes(call.ties, call.shape, [len(left)], "is a diagonal")
        value = pin_axes(call, value, dims, "is read along a diagonal")
    spared = tuple(f.moved(to) for f in value.factors if not set(f.axes) & set(dims))
    return Value(call.shape, spared + new, value.zero)


@rule("aten.diag_embed")
def _diag_embed(call: Call) -> Value:
    """A vector on the diagonal of a square: its index k is row k and column k."""
    value, n = call["self"], len(call.shape)
    dims = [int(call["dim1"]) % n, int(call["dim2"]) % n]
    left = [a for a in range(n) if a not in dims]
    last = value.ndim - 1
    if int(call["offset"]) == 0 and all(f.axes == (last,) for f in value.on(last)):
        new = tuple(f.moved({last: d}) for d in dims for f in value.on(last))
    else:
        value = pin_axes(call, value, [last], "is laid on a diagonal")
        new = ()
    if len(new) < 2:
        new = fixed_axes(call.ties, call.shape, dims, "is a diagonal")
    spared = tuple(f.moved(dict(enumerate(left))) for f in value.factors if last not in f.axes)
    return Value(call.shape, spared + new, value.zero)


@rule("aten.tril", "aten.triu")
def _triangle(call: Call) -> Value:
    """Row k and column k of a square leave together; beside the main diagonal they cannot."""
    value: Value = call["self"]
    dims = [value.ndim - 2, value.ndim - 1]
    if int(call.get("diagonal", 0)) == 0 and _square(value, dims) and all(value.on(d) for d in dims):
        _tie_lines(call.ties, value, dims)
        return value
    spared = pin_axes(call, value, dims, f"is cut to a triangle by {call.name}")
    new = fixed_axes(call.ties, value.shape, dims, f"is cut to a triangle by {call.name}")
    return Value(value.shape, spared.factors + new, value.zero)


def _tie_lines(ties: Ties, value: Value, dims: Sequence[int]) -> None:
    for row in value.on(dims[0]):
        for column in value.on(dims[1]):
            ties.tie(row.labels, column.labels)


@rule(
    "aten._linalg_det", "aten._linalg_slogdet", "aten._linalg_svd", "aten._linalg_eigh", "aten._linalg_eigvals",
    "aten._linalg_solve_ex", "aten.linalg_cholesky_ex", "aten.linalg_eig", "aten.linalg_eigvals", "aten.linalg_inv_ex",
    "aten.linalg_ldl_factor_ex", "aten.linalg_ldl_solve", "aten.linalg_lu", "aten.linalg_lu_factor_ex",
    "aten.linalg_lu_solve", "aten.linalg_matrix_exp", "aten.linalg_pinv", "aten.linalg_qr", "aten.linalg_lstsq",
    "aten.linalg_solve_triangular", "aten.linalg_householder_product", "aten.cholesky", "aten.cholesky_inverse",
    "aten.cholesky_solve", "aten._cholesky_solve_helper", "aten.triangular_solve", "aten.geqrf", "aten.ormqr",
    "aten.lu_unpack",
)  # fmt: skip
def _matrices(call: Call) -> list[Value]:
    """Matrices are seen whole; axes before them are independent, where every operand has the same ones."""
    values = call.tensors()
    batch = values[0].shape[:-2]
    if not batch or any(v.ndim != values[0].ndim or v.shape[:-2] != batch for v in values):
        return seen_whole(call)
    n = len(batch)
    rows = [Value(batch, pin_axes(call, v, [n, n + 1], f"is seen whole by {call.name}").factors) for v in values]
    met = unsure_value(pointwise_values(call.ties, rows, batch, []))
    results = []
    for shape in call.shapes:
        same = shape[:n] == batch
        new = fixed_axes(call.ties, shape, range(n, len(shape)) if same else None, f"comes out of {call.name}")
        results.append(Value(shape, (met.factors if same else ()) + new))
    if any(shape[:n] != batch for shape in call.shapes):
        for factor in met.factors:
            call.ties.pin(factor.labels, f"is seen whole by {call.name}")
    return results


@rule("aten.linalg_cross")
def _cross(call: Call) -> Value:
    """The axis of length three is seen whole; the others are independent."""
    met = pointwise_values(call.ties, [call["self"], call["other"]], call.shape, [(0,), (1,)])
    dim = met.axis(int(call.get("dim", -1)))
    spared = pin_axes(call, met, [dim], "is crossed")
    return Value(call.shape, spared.factors + fixed_axes(call.ties, call.shape, [dim], "is crossed"), met.zero)
