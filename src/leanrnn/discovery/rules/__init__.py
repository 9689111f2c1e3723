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
    step,
    window,
)  # fmt: skip
from leanrnn.discovery.rules.base import Call, Known, find, rule
from leanrnn.discovery.rules.kinds import Kind

__all__ = [
    "Call", "Kind", "Known", "constant", "conv", "find", "index", "join", "linalg", "matmul", "move", "norm",
    "pointwise", "reduce", "rule", "step", "window",
]  # fmt: skip
