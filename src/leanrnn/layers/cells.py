"""Recurrent cells that accept a state of a width they had before a cut."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from leanrnn.layers.states import Former, compose, narrow

__all__ = ["Cell", "GRUCell", "LSTMCell", "RNNCell"]


class Cell(nn.RNNCellBase):
    """What the three cells share: former widths."""

    former: Former | None = None

    def accept(self, width: int, kept: Sequence[int]) -> None:
        """Accept states of ``width`` from now on, of which the positions ``kept`` are left."""
        self.former = compose(self.former or {}, width, kept)

    def refit_(self) -> None:
        """Set ``input_size`` and ``hidden_size`` from the parameters as they are now."""
        self.input_size, self.hidden_size = self.weight_ih.size(1), self.weight_hh.size(1)

    def _narrow(self, state: Tensor) -> Tensor:
        return narrow(state, self.weight_hh.size(1), self.former or {})


class LSTMCell(Cell, nn.LSTMCell):
    """nn.LSTMCell that takes a state of a former width as well."""

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next (h, c)."""
        return super().forward(input, None if hx is None else (self._narrow(hx[0]), self._narrow(hx[1])))


class GRUCell(Cell, nn.GRUCell):
    """nn.GRUCell that takes a state of a former width as well."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next h."""
        return super().forward(input, None if hx is None else self._narrow(hx))


class RNNCell(Cell, nn.RNNCell):
    """nn.RNNCell that takes a state of a former width as well."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next h."""
        return super().forward(input, None if hx is None else self._narrow(hx))
