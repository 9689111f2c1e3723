"""A stack of recurrences whose layers and directions may each have their own width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.nn.utils.rnn import PackedSequence

from leanrnn.layers.fused import GATES, flatten, stack
from leanrnn.layers.states import Former, States, compose, narrow
from leanrnn.layers.uncompiled import uncompiled

__all__ = ["GRU", "LSTM", "PLAIN", "RECURRENT", "RNN", "Recurrent", "equal_widths", "slots_of", "widths_of"]

Weights = Sequence[Sequence[Tensor]]
"""Per layer and direction, in torch's order."""


class Recurrent(nn.RNNBase):
    """Answers like nn.LSTM, nn.GRU or nn.RNN, with a width per layer and direction.

    Parameters carry torch's own names, so a ``state_dict`` has the same keys. ``hidden_size`` is a number when all
    widths agree and else a tuple in the order of ``h_n``; the states are then :class:`States`. A state of a width the
    module had before a cut is accepted and loses the components that were cut::

        small = leanrnn.shrink(model, groups)       # where model.rnn is nn.LSTM(10, 20, num_layers=2)
        output, (h_n, c_n) = small.rnn(x)           # h_n[0] and h_n[1] may be of two widths
    """

    former: tuple[tuple[Former, ...], ...] = ()
    """Per part of the state (h, c) and per layer and direction: the positions that are left of each former width."""

    @property
    def slots(self) -> list[str]:
        """Suffix of the parameter names of every layer and direction, in the order of ``h_n``."""
        return slots_of(self)

    def widths(self, part: int) -> tuple[int, ...]:
        """Width of the hidden (part 0) or cell state (part 1) of every layer and direction."""
        return widths_of(self, part)

    @property
    def parts(self) -> int:
        """Tensors in a state: two for an LSTM (h and c), else one."""
        return 2 if self.mode == "LSTM" else 1

    @property
    def equal(self) -> bool:
        """Whether all layers and directions have one width, so that a plain torch module could hold them."""
        return equal_widths(self)

    def refit_(self) -> None:
        """Set ``input_size``, ``hidden_size`` and ``proj_size`` from the parameters as they are now."""
        self.input_size = getattr(self, f"weight_ih{self.slots[0]}").size(1)
        hidden, state = self.widths(self.parts - 1), self.widths(0)
        self.hidden_size = _one_or_all(hidden)  # type: ignore[assignment]  # a tuple where torch has one number
        self.proj_size = _one_or_all(state) if self.proj_size else 0  # type: ignore[assignment]

    def accept(self, part: int, slot: int, width: int, kept: Sequence[int]) -> None:
        """Accept states of ``width`` from now on, of which the positions ``kept`` are left."""
        former = [list(p) for p in self.former] or [[{} for _ in self.slots] for _ in range(self.parts)]
        former[part][slot] = compose(former[part][slot], width, kept)
        self.former = tuple(tuple(p) for p in former)

    def flatten_parameters(self) -> None:
        """Lay the weights of each layer and direction out in one block, which cuDNN asks for; elsewhere do nothing."""
        for names in self._all_weights:
            flatten(self.mode, [self._parameters.get(name) for name in names], bool(self.proj_size))

    @uncompiled
    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Output and last state, as torch's module of the same kind gives them."""
        # Read once: under a parametrization every reading computes the weight.
        weights = self.all_weights
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            initial = self._initial(hx, data, int(sizes[0]), True, order, weights)
            output, last = self._stack(data, sizes, initial, weights)
            return PackedSequence(output, sizes, order, back), self._returned(last, True, back)
        if input.dim() not in (2, 3):
            raise ValueError(f"{self.mode}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        # The time-major order inside is torch's own, so that dropout draws the same mask for the same seed.
        data = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        initial = self._initial(hx, data, data.size(1), batched, None, weights)
        output, last = self._stack(data, None, initial, weights)
        output = output.squeeze(1) if not batched else output.transpose(0, 1) if self.batch_first else output
        return output, self._returned(last, batched, None)

    def _initial(
        self, hx: Any, data: Tensor, batch: int, batched: bool, order: Tensor | None, weights: Weights
    ) -> list[tuple[Tensor, ...]]:
        """Per layer and direction the (h,) or (h, c) to start from, each (1, batch, width)."""
        if data.size(-1) != weights[0][0].size(1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.size(-1)}"
            )
        parts = []
        for part in range(self.parts):
            widths = _widths([slot[1] for slot in weights], part)
            if hx is None:
                parts.append([data.new_zeros(1, batch, width) for width in widths])
            else:
                given = hx[part] if self.parts > 1 else hx
                parts.append(self._given(part, given, widths, batch, batched, order))
        return list(zip(*parts, strict=True))

    def _given(
        self, part: int, given: Any, widths: Sequence[int], batch: int, batched: bool, order: Tensor | None
    ) -> list[Tensor]:
        dims = 2 if batched else 1
        states = list(given.unbind(0)) if isinstance(given, Tensor) else list(given)
        former = self.former[part] if self.former else [Former() for _ in widths]
        if len(states) != len(widths) or any(state.dim() != dims for state in states):
            shapes = [tuple(state.shape) for state in states]
            raise RuntimeError(
                f"Expected hidden[{part}] of {len(widths)} {dims}-D states of widths {widths}, got {shapes}"
            )
        found = []
        for state, width, positions in zip(states, widths, former, strict=True):
            state = narrow(state, width, positions)
            state = state if batched else state.unsqueeze(0)
            if state.shape != (batch, width):
                raise RuntimeError(f"Expected hidden[{part}] size {(batch, width)}, got {list(state.shape)}")
            found.append((state if order is None else state.index_select(0, order)).unsqueeze(0))
        return found

    def _stack(
        self, data: Tensor, sizes: Tensor | None, initial: list[tuple[Tensor, ...]], weights: Weights
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        rest = (self.bias, float(self.dropout), self.training, self.bidirectional)
        return stack(self.mode, data, sizes, initial, weights, *rest)

    def _returned(self, last: list[tuple[Tensor, ...]], batched: bool, back: Tensor | None) -> Any:
        found: list[Tensor | States] = []
        for states in zip(*last, strict=True):
            # Lists, no generators: the compiler, which reads this for a strict export, does not know all they can do.
            states = tuple([s if back is None else s.index_select(1, back) for s in states])
            states = states if batched else tuple([s.squeeze(1) for s in states])
            equal = len({s.size(-1) for s in states}) == 1
            found.append(torch.cat(states) if equal else States([s.squeeze(0) for s in states]))
        return tuple(found) if self.parts > 1 else found[0]


class LSTM(Recurrent, nn.LSTM):
    """:class:`Recurrent` in the place of an nn.LSTM, so that ``isinstance(rnn, nn.LSTM)`` still holds."""


class GRU(Recurrent, nn.GRU):
    """:class:`Recurrent` in the place of an nn.GRU."""


class RNN(Recurrent, nn.RNN):
    """:class:`Recurrent` in the place of an nn.RNN."""


RECURRENT: dict[str, type[Recurrent]] = {"LSTM": LSTM, "GRU": GRU, "RNN_TANH": RNN, "RNN_RELU": RNN}
PLAIN: dict[str, type[nn.RNNBase]] = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN_TANH": nn.RNN, "RNN_RELU": nn.RNN}


def slots_of(module: nn.RNNBase) -> list[str]:
    """Suffix of the parameter names of every layer and direction, in the order of ``h_n``."""
    directions = ("", "_reverse") if module.bidirectional else ("",)
    return [f"_l{layer}{direction}" for layer in range(module.num_layers) for direction in directions]


def widths_of(module: nn.RNNBase, part: int) -> tuple[int, ...]:
    """Width of the hidden (part 0) or cell state (part 1) of every layer and direction, as the weights have it."""
    if part == 0 and module.proj_size:
        return tuple(_registered(module, slot, "weight_hr").size(0) for slot in slots_of(module))
    rows = (_registered(module, slot, "weight_ih", "weight_hh", "bias_ih").size(0) for slot in slots_of(module))
    return tuple(n // GATES[module.mode] for n in rows)


def _registered(module: nn.RNNBase, slot: str, *names: str) -> Tensor:
    """The first of these weights that is the module's own: under weight drop one is set anew in every call."""
    names = tuple(f"{name}{slot}" for name in names)
    own = [name for name in names if name in module._parameters or is_parametrized(module, name)]
    return cast(Tensor, getattr(module, (own or names)[0]))


def _widths(weights_hh: Sequence[Tensor], part: int) -> tuple[int, ...]:
    return tuple(w.size(1) if part == 0 else w.size(0) // 4 for w in weights_hh)


def equal_widths(module: nn.RNNBase) -> bool:
    """Whether all layers and directions have one width, and torch's module could hold it."""
    if module.proj_size and widths_of(module, 0)[0] == widths_of(module, 1)[0]:
        return False  # torch tells a projected state from a plain one by its width
    return all(len(set(widths_of(module, part))) == 1 for part in range(2 if module.mode == "LSTM" else 1))


def _one_or_all(widths: tuple[int, ...]) -> int | tuple[int, ...]:
    return widths[0] if len(set(widths)) == 1 else widths
