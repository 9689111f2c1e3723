"""Per operator: how labels pass through it. Importing the package registers every rule."""

from leanrnn.discovery.rules import (
    constant,
    conv,
    index,
    join,
    linalg,
    matmul,
    move,
    norm,
    pointwise,
    reduce,
    window,
)  # fmt: skip
from leanrnn.discovery.rules.base import Call, find

__all__ = [
    "Call", "constant", "conv", "find", "index", "join", "linalg", "matmul", "move", "norm", "pointwise", "reduce",
    "window",
]  # fmt: skip
