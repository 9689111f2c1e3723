"""The operators that one forward executed, as pure functions of numbered values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

from leanrnn.discovery.labels import Labels
from leanrnn.discovery.rules import Kind, Known, find

__all__ = ["Node", "Ref", "Source", "Tape"]


@dataclass(frozen=True)
class Ref:
    """A value on the tape, standing where the operator had a tensor."""

    id: int


@dataclass
class Node:
    """One executed operator: ``outs = op(*args, **kwargs)``.

    With ``scatter`` it is a write: ``args[1]`` goes into result number ``scatter`` of the view ``op`` of ``args[0]``.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: list[int]
    where: str
    fused: bool
    scatter: int | None = None

    @property
    def name(self) -> str:
        """The operator's name without its overload, ``aten.addmm``."""
        return str(self.op.overloadpacket) if hasattr(self.op, "overloadpacket") else str(self.op)

    @cached_property
    def known(self) -> Known | None:
        """What the operator's rule file says of it."""
        return find(self.op)

    @property
    def kind(self) -> Kind:
        """What the operator does, for those who look at more than labels."""
        return Kind.NONE if self.known is None else self.known.kind

    def has(self, name: str) -> bool:
        """Whether the operator's schema has an argument of this name."""
        return any(argument.name == name for argument in self.op._schema.arguments)

    def argument(self, name: str) -> Any:
        """The argument that has this name in the operator's schema, ``None`` if there is none; not of a write."""
        for place, argument in enumerate(self.op._schema.arguments):
            if argument.name == name:
                given = self.args[place] if place < len(self.args) else self.kwargs.get(name)
                return argument.default_value if given is None else given
        return None

    def arguments(self, resolve: Callable[[Ref], Any]) -> dict[str, Any]:
        """All arguments by their names in the operator's schema, defaults too, with ``resolve`` applied to values; of a
        write those of its view."""
        schema = self.op._schema.arguments
        given = self.args if self.scatter is None else (self.args[0], *self.args[2:])
        named: dict[str, Any] = {a.name: a.default_value for a in schema if a.has_default_value()}
        named.update(zip((a.name for a in schema), given, strict=False))
        named.update(self.kwargs)
        put = lambda item: resolve(item) if isinstance(item, Ref) else item  # noqa: E731
        return {name: tree_map(put, value, is_leaf=lambda x: isinstance(x, Ref)) for name, value in named.items()}

    def inputs(self) -> list[int]:
        """Ids of all values the operator took."""
        found: list[int] = []
        _refs((self.args, self.kwargs), found)
        return found


@dataclass
class Source:
    """A value no operator made: a parameter, a buffer, an input or a constant."""

    kind: str
    name: str
    tensor: Tensor | None

    @property
    def uniform(self) -> bool:
        """Whether all its numbers are the same."""
        if self.tensor is None or self.tensor.device.type == "meta" or self.tensor.numel() == 0:
            return self.tensor is not None and self.tensor.numel() <= 1
        return bool((self.tensor == self.tensor.reshape(-1)[0]).all())

    @property
    def starts_with_zero(self) -> bool:
        """Whether its first number is zero."""
        known = self.tensor is not None and self.tensor.device.type != "meta" and self.tensor.numel() > 0
        return known and bool(self.tensor.reshape(-1)[0] == 0)  # type: ignore[union-attr]  # known

    @property
    def positions(self) -> Labels | None:
        """What is in a constant list of whole numbers, such as that of a reversed axis."""
        if self.kind != "constant" or self.tensor is None or self.tensor.dtype != torch.int64 or self.tensor.dim() != 1:
            return None
        if self.tensor.device.type == "meta" or isinstance(self.tensor, FakeTensor):
            return None
        return np.asarray(self.tensor.tolist(), np.int64)


@dataclass
class Tape:
    """Everything one forward executed, in order."""

    nodes: list[Node] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    dtypes: list[torch.dtype] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)
    outputs: list[int] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)
    """Tensors of the model's own that were written in place: what each was, and what it is in the end."""

    def floating(self, value: int) -> bool:
        """Whether a value holds numbers that can carry a gradient."""
        return self.dtypes[value].is_floating_point or self.dtypes[value].is_complex

    def value(self, tensor: Tensor) -> int:
        """A new value with the shape of ``tensor``."""
        self.shapes.append(tuple(tensor.shape))
        self.dtypes.append(tensor.dtype)
        return len(self.shapes) - 1


def _refs(value: Any, found: list[int]) -> None:
    if isinstance(value, Ref):
        found.append(value.id)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _refs(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _refs(item, found)
