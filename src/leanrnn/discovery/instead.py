"""What is recorded instead of an operator that has no rule: the same thing in operators that have one.

Torch ships such functions for many of its operators (it decomposes them for compilers), and a user gives one with
``leanrnn.register(operator, like=function)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from leanrnn.discovery.rules import find
from leanrnn.errors import OperatorError

__all__ = ["LIKE", "checked", "instead_of"]

LIKE: dict[str | type, Callable[..., Any]] = {}
"""Functions that do what an operator does, by the operator's name (``mylib.scan``); or what an ``autograd.Function``
does, by its class."""


@cache
def instead_of(op: Any) -> Callable[..., Any] | None:
    """A function that does what ``op`` does, if the recorder should follow that; call ``cache_clear`` after changes."""
    name = str(getattr(op, "overloadpacket", op))
    if name in LIKE:
        return partial(_followed, op, LIKE[name])
    if find(op) is not None or op.namespace == "prim":  # such as prim::device, which the dispatcher does not know
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


def _followed(op: Any, like: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if op._schema.is_mutable:
        return like(*args, **kwargs)
    return checked(op.name(), like, args, kwargs, lambda: op(*args, **kwargs))


def checked(
    name: str, like: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], real: Callable[[], Any]
) -> Any:
    """What a user's function returns, after a look at whether ``real`` returns the same."""
    result = like(*args, **kwargs)
    with _disable_current_modes():
        expected, given = tree_leaves(real()), tree_leaves(result)
        agree = len(given) == len(expected) and all(map(_close, given, expected))
    if not agree:
        raise OperatorError(
            f"the function registered for {name} does not return what the operator returns here. "
            "Compare both on these inputs: shapes, types and numbers have to agree."
        )
    return result


def _close(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype or a.device.type == "meta" or isinstance(a, FakeTensor):
        return a.shape == b.shape and a.dtype == b.dtype
    if not a.is_floating_point() and not a.is_complex():
        return torch.equal(a, b)
    rounding = torch.finfo(a.dtype).eps ** 0.5
    return torch.allclose(a, b, rtol=rounding, atol=rounding, equal_nan=True)
