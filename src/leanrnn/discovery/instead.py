"""What is recorded instead of an operator that has no rule: the same thing in operators that have one.

Torch ships such functions for many of its operators (it decomposes them for compilers), and a user gives one with
``leanrnn.register(operator, like=function)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from leanrnn.discovery.rules import find

__all__ = ["LIKE", "instead_of"]

LIKE: dict[str, Callable[..., Any]] = {}
"""Functions that do what an operator does, by the operator's name (``mylib.scan``)."""


@cache
def instead_of(op: Any) -> Callable[..., Any] | None:
    """A function that does what ``op`` does, if the recorder should follow that; call ``cache_clear`` after changes."""
    name = str(getattr(op, "overloadpacket", op))
    if name in LIKE:
        return LIKE[name]
    if find(op) is not None:
        return None
    if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"):
        # Torch takes these apart by itself, but not in inference mode.
        whole: Callable[..., Any] = op.decompose
        return whole
    writes = any(a.alias_info is not None for a in (*op._schema.arguments, *op._schema.returns))
    if writes or torch.Tag.nondeterministic_seeded in op.tags:
        return None
    from torch._decomp import decomposition_table

    found: Callable[..., Any] | None = decomposition_table.get(op)
    return found
