"""How operators are written in C, beside their relatives."""

from leanrnn.deploy.formats.c.lowering import Lowering
from leanrnn.deploy.formats.c.rules import join, norm, pointwise, product, recurrent, window

__all__ = ["Lowering", "join", "norm", "pointwise", "product", "recurrent", "window"]
