"""Which value of the tape every tensor has in a call: views and writes in place are turned into values here.

A write into ``out[t]`` makes a new ``out``, so that what reads the tape never has to think about memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from leanrnn.discovery.tape import Node, Ref, Source, Tape

__all__ = ["Alias", "Memory", "Where"]

Where = tuple[str, bool]
"""File and line of the user's that an operator comes from, and whether torch's own recurrent code runs there."""


@dataclass
class Root:
    value: int
    version: int = 0


@dataclass
class Alias:
    """A tensor as a chain of views on a root; ``value`` is what it held at ``version`` of the root."""

    root: Root
    chain: tuple[tuple[Any, tuple[Any, ...], dict[str, Any], int, tuple[int, ...]], ...]
    version: int
    value: int


class Memory:
    """Which value of the tape each tensor has now."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.known: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.places: dict[tuple[Any, ...], Alias] = {}
        self.roots: list[tuple[int, Root]] = []
        """Tensors of the model's own that a call may write into, as they were found."""

    def source(self, tensor: Tensor, kind: str, name: str) -> int:
        place = _place(tensor)
        found = self.places.get(place)
        if found is None:
            value = self.tape.value(tensor)
            self.tape.sources[value] = Source(kind, name, tensor)
            found = Alias(Root(value), (), 0, value)
            self.places[place] = found
            if kind in ("buffer", "held"):
                self.roots.append((value, found.root))
        self.known[tensor] = found
        return found.value

    def made(self, tensor: Tensor, value: int | None = None) -> int:
        """``tensor`` is new, whatever was known of it."""
        value = self.tape.value(tensor) if value is None else value
        self.known[tensor] = Alias(Root(value), (), 0, value)
        return value

    def read(self, tensor: Tensor, where: Where) -> int:
        alias: Alias | None = self.known.get(tensor)  # type: ignore[no-untyped-call]
        if alias is None:
            self.source(tensor, "constant", "")
            alias = self.known[tensor]
        if alias.version != alias.root.version:
            values = self._replay(alias, where)
            alias.value, alias.version = values[-1], alias.root.version
        return int(alias.value)

    def _replay(self, alias: Alias, where: Where) -> list[int]:
        """Values along the chain of views, the root's first, as the root stands now."""
        values = [alias.root.value]
        for op, args, kwargs, index, shape in alias.chain:
            outs = [self._blank(shape, values[-1]) if i == index else -1 for i in range(index + 1)]
            self.tape.nodes.append(Node(op, (Ref(values[-1]), *args), kwargs, outs, *where))
            values.append(outs[index])
        return values

    def _blank(self, shape: tuple[int, ...], like: int) -> int:
        self.tape.shapes.append(shape)
        self.tape.dtypes.append(self.tape.dtypes[like])
        return len(self.tape.shapes) - 1

    def write(self, tensor: Tensor, value: int, where: Where) -> None:
        """``tensor`` now holds ``value``: so does the part of its root that it is a view of."""
        self.read(tensor, where)
        alias = self.known[tensor]
        before = self._replay(alias, where)[:-1] if alias.chain else []
        for (op, args, kwargs, index, _), base in zip(reversed(alias.chain), reversed(before), strict=True):
            new = self._blank(self.tape.shapes[base], base)
            self.tape.nodes.append(Node(op, (Ref(base), Ref(value), *args), kwargs, [new], *where, scatter=index))
            value = new
        alias.root.value, alias.root.version = value, alias.root.version + 1
        if not alias.chain:
            alias.value, alias.version = value, alias.root.version

    def view(self, tensor: Tensor, parent: Tensor, step: Any, value: int) -> None:
        """``tensor`` is a view of ``parent``, taken by ``step``."""
        known = self.known[parent]
        self.known[tensor] = Alias(known.root, (*known.chain, step), known.root.version, value)

    def written(self) -> list[tuple[int, int]]:
        """The model's own tensors that were written into: the value that came in, and the one in the end."""
        return [(source, root.value) for source, root in self.roots if root.version]


def _place(tensor: Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return (storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
