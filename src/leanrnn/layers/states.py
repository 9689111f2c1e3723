"""Recurrent states of unequal widths, and how a state of a former width is cut down to today's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

__all__ = ["Former", "States", "compose", "narrow"]

Former = dict[int, list[int]]
"""For every width a state once had, the positions that are still there."""


class States(Sequence[Any]):
    """What takes the place of ``h_n`` when layers differ in width: one tensor a layer and direction.

    It is indexed like the stacked tensor along its first axis::

        output, (h_n, c_n) = rnn(x)
        last = h_n[-1]                              # (batch, width of the last layer)
        both = torch.cat(tuple(h_n[-2:]), dim=-1)   # last layer, both directions

    It is no tuple, since ``isinstance(state, tuple)`` is how code tells the state of an LSTM from that of a GRU.
    """

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Iterable[Any] = ()) -> None:
        self._tensors = tuple(tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            if not key:
                return self
            first, rest = key[0], key[1:]
            if first is Ellipsis:
                raise IndexError("states of unequal widths share no last axis. Index the layer first: h_n[-1][..., k].")
            return States(t[rest] for t in self[first]) if isinstance(first, slice) else self[first][rest]
        found = self._tensors[key]
        return States(found) if isinstance(key, slice) else found

    def each(self, change: Callable[[Tensor], Tensor]) -> States:
        """The states with ``change`` applied to every tensor."""
        return States(change(t) for t in self)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The tensors, one a layer and direction."""
        if dim != 0:
            raise IndexError(
                f"states of unequal widths can be unbound along axis 0 only, not {dim}. Use h_n[i].unbind()."
            )
        return tuple(self)

    def view(self, layers: int, directions: int, *rest: int) -> States:
        """The states by layer and direction, for ``h_n.view(layers, directions, batch, width)[-1]``."""
        layers = len(self) // directions if layers == -1 else layers
        directions = len(self) // layers if directions == -1 else directions
        if layers * directions != len(self) or len(rest) != self.dim() - 1:
            raise IndexError(f"{len(self)} states cannot be seen as {layers} layers of {directions} directions.")
        return States(self[i : i + directions] for i in range(0, len(self), directions))

    reshape = view

    def index_select(self, dim: int, index: Tensor) -> States:
        """Pick along an axis behind the first, such as the batch (axis 1)."""
        if dim < 1:
            raise IndexError(f"states of unequal widths cannot be picked along axis {dim}. Use h_n[i] for a layer.")
        return self.each(lambda t: t.index_select(dim - 1, index))

    def size(self, dim: int) -> int:
        """Length along ``dim``, where all layers agree: 0 is the layers, 1 the batch."""
        lengths = {len(self)} if dim == 0 else {t.size(dim - 1 if dim > 0 else dim) for t in self}
        if len(lengths) != 1:
            raise IndexError(
                f"the widths differ by layer: {[t.size(-1) for t in self]}. Use h_n[i].size() for a layer."
            )
        return lengths.pop()

    def dim(self) -> int:
        """Axes of the stacked tensor these states stand for."""
        return cast(Tensor, self[0]).dim() + 1

    def detach(self) -> States:
        """The states cut off from the graph."""
        return self.each(Tensor.detach)

    def clone(self) -> States:
        """A copy of every tensor."""
        return self.each(Tensor.clone)

    def contiguous(self) -> States:
        """Every tensor laid out contiguously."""
        return self.each(Tensor.contiguous)

    def to(self, *args: Any, **kwargs: Any) -> States:
        """Every tensor moved or converted like :meth:`torch.Tensor.to`."""
        return self.each(lambda t: t.to(*args, **kwargs))

    @property
    def device(self) -> torch.device:
        """The device of the states."""
        return cast(Tensor, self[0]).device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers."""
        return cast(Tensor, self[0]).dtype

    def __repr__(self) -> str:
        return f"States({', '.join(repr(t) if isinstance(t, States) else str(tuple(t.shape)) for t in self)})"


pytree.register_pytree_node(
    States,
    lambda states: (list(states), None),
    lambda tensors, _: States(tensors),
    serialized_type_name="leanrnn.layers.States",
    flatten_with_keys_fn=lambda states: ([(pytree.SequenceKey(i), each) for i, each in enumerate(states)], None),
)


def compose(former: Former, width: int, kept: Sequence[int]) -> Former:
    """Positions per former width after ``kept`` of the present ``width`` stay."""
    found = {old: [positions[i] for i in kept] for old, positions in former.items()}
    found[width] = list(kept)
    return found


def narrow(state: Tensor, width: int, former: Former) -> Tensor:
    """``state`` at today's ``width``; a state of a former width loses the components that were cut since."""
    if state.size(-1) == width or not former:
        return state
    positions = former.get(int(state.size(-1)))
    if positions is None:
        return state
    return state.index_select(-1, torch.tensor(positions, device=state.device))
