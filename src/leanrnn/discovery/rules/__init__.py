"""Per operator: how labels pass through it. Importing the package registers every rule."""

from leanrnn.discovery.rules import index, join, matmul, move, norm, pointwise, reduce
from leanrnn.discovery.rules.base import Call, find

__all__ = ["Call", "find", "index", "join", "matmul", "move", "norm", "pointwise", "reduce"]
