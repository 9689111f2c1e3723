"""What the weights of a model are multiplied by in a call, summed up as second moments.

The operators are watched as they run, whatever Python calls them: a matrix product with a weight, or with some of its
rows, tells what that weight reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Products", "Reading"]

_SIDES = {"mm": 0, "bmm": 0, "mv": 0, "linear": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
"""Operators that multiply two matrices, and at which argument the first of them stands."""
_VIEWS = ("_unsafe_view",)
"""Operators that give a tensor another shape without saying so."""


class Reading:
    """What one weight is multiplied by along an axis of ``size``, over all calls that were watched."""

    def __init__(self, size: int) -> None:
        self.moments = torch.zeros(size + 1, size + 1, dtype=torch.float64)
        """Sums of the products of all numbers with each other, and with a one that stands behind them."""
        self.biases: set[str | None] = set()
        """Names of what was added to the products; None where nothing was."""
        self.elsewhere = False
        """Whether something else than a product used the weight."""

    @property
    def bias(self) -> str | None:
        """What is added to every product, if it is the same everywhere."""
        return next(iter(self.biases)) if len(self.biases) == 1 else None

    def add(self, rows: Tensor) -> None:
        """Take numbers (..., size) into the sums."""
        rows = rows.detach().reshape(-1, rows.shape[-1]).to("cpu", torch.float64)
        rows = torch.cat((rows, rows.new_ones(len(rows), 1)), 1)
        self.moments += rows.T @ rows


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the products with some matrices, given by name with the axis that is multiplied. ::

    with Products(model, {"rnn.weight_hh_l0": 1}) as products:
        model(x)
    products.readings["rnn.weight_hh_l0"].moments
    """

    def __init__(self, model: nn.Module, axes: Mapping[str, int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        named = dict(model.named_parameters(remove_duplicate=False))
        self.readings = {name: Reading(named[name].shape[axis]) for name, axis in axes.items()}
        self._axes = dict(axes)
        self._matrices = {name: named[name] for name in axes}
        self._vectors = {name: parameter for name, parameter in named.items() if parameter.dim() == 1}
        self._open: tuple[str, Tensor] | None = None
        """The last product that nothing was added to yet."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _VIEWS or _is_view(func):
            return result
        tensors = [item for item in tree_leaves((args, kwargs)) if isinstance(item, Tensor)]
        self._close(name, tensors)
        used = {found for item in tensors if (found := _within(item, self._matrices)) is not None}
        multiplied = self._read(name, args) if used and name in _SIDES else None
        for each in used - {multiplied}:
            self.readings[each].elsewhere = True
        if multiplied is not None:
            summand = (
                args[2] if name == "linear" and len(args) > 2 else args[0] if name.startswith(("add", "badd")) else None
            )
            if summand is None:
                self._open = (multiplied, result)
            else:
                self.readings[multiplied].biases.add(_within(summand, self._vectors))
        return result

    def finish(self) -> None:
        """Called when nothing more is watched."""
        self._close("", [])

    def _close(self, name: str, tensors: list[Tensor]) -> None:
        """What follows a product without a summand may be the sum with one."""
        if self._open is None:
            return
        (multiplied, product), self._open = self._open, None
        adds = name in ("add", "add_") and any(_memory(item) == _memory(product) for item in tensors)
        biases = [_within(item, self._vectors) for item in tensors if adds and item.dim() == 1]
        self.readings[multiplied].biases.add(next(iter(biases), None))

    def _read(self, name: str, args: tuple[Any, ...]) -> str | None:
        """The matrix that is multiplied along its axis here, with what it is multiplied by taken into the sums."""
        first = _SIDES[name]
        left, right = args[first], args[first + 1].mT if name == "linear" else args[first + 1]
        for matrix, other, axis in ((right, left, -2), (left, right.mT if right.dim() > 1 else right, -1)):
            found = _within(matrix, self._matrices)
            if found is None or matrix.dim() < 2:
                continue
            whole, along = self._matrices[found], self._axes[found]
            if matrix.shape[axis] == whole.shape[along] and matrix.stride(axis) == whole.stride(along):
                self.readings[found].add(other)
                return found
        return None


def _is_view(func: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _within(tensor: Tensor, named: Mapping[str, Tensor]) -> str | None:
    """The name of the tensor of which this one is a view; several may share their memory side by side."""
    if tensor.layout != torch.strided:
        return None
    for name, whole in named.items():
        start = whole.storage_offset()
        if _memory(whole) == _memory(tensor) and start <= tensor.storage_offset() < start + whole.numel():
            return name
    return None
