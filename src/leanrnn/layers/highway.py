"""The recurrent layer of a Recurrent Highway Network (Zilly et al., 2017): several steps in depth for one in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear

from leanrnn.errors import LayerError
from leanrnn.layers.highway_steps import plain_steps, quick_steps
from leanrnn.layers.states import Former, compose, narrow

__all__ = ["RecurrentHighway"]


class RecurrentHighway(nn.Module):
    """Answers like a one-layer ``nn.RNN``: time first, a state (1, batch, width) in and out. ::

        rnn = RecurrentHighway(10, 20, depth=3)
        output, state = rnn(torch.randn(7, 2, 10))      # (7, 2, 20) and (1, 2, 20)
        output, state = rnn(torch.randn(5, 2, 10), state)

    Every step in depth makes a candidate h and a transform gate t out of the state s, the first one out of the input
    too, and goes on with ``t * h + (1 - t) * s``: the gates are coupled. While training, one mask is on the input and
    one on what the gates read of the state, both the same for all steps (variational dropout).

    Arguments:
        depth: steps in depth for one in time.
        input_dropout: probability that a number of the input is dropped.
        hidden_dropout: the same for the state that the gates read; what is carried on is never dropped.
        gate_bias: where the biases of the transform gate start. Below zero most of the state is carried at first.
    """

    former: Former | None = None
    """For every width the layer had before a cut, the positions that are left."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        depth: int = 1,
        *,
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        gate_bias: float = -2.0,
    ) -> None:
        super().__init__()
        for name, size in {"input_size": input_size, "hidden_size": hidden_size, "depth": depth}.items():
            if size < 1:
                raise LayerError(f"{name} is {size}. Give at least 1.")
        self.input_size, self.hidden_size, self.depth = input_size, hidden_size, depth
        self.input_dropout, self.hidden_dropout, self.gate_bias = input_dropout, hidden_dropout, gate_bias
        self.weight_ih_l0 = nn.Parameter(torch.empty(2 * hidden_size, input_size))
        for i in range(depth):
            self.register_parameter(f"weight_hh_l{i}", nn.Parameter(torch.empty(2 * hidden_size, hidden_size)))
            self.register_parameter(f"bias_l{i}", nn.Parameter(torch.empty(2 * hidden_size)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers, as torch's recurrent layers have them, but for the biases of the transform gate."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.hidden_size**-0.5), self.hidden_size**-0.5)
        self.close_gates()

    @torch.no_grad()
    def close_gates(self) -> None:
        """Set the biases of the transform gate to ``gate_bias``."""
        for bias in self._all("bias"):
            bias[self.hidden_size :] = self.gate_bias

    def forward(self, input: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The state after every step in time, and the last one."""
        self._check(input)
        s, mask = self._initial(input, state), None
        if self.training:
            input = input * self._mask(input[0], self.input_dropout)
            mask = self._mask(s, self.hidden_dropout) if self.hidden_dropout else None
        weights, (first, *biases) = self._all("weight_hh"), self._all("bias")
        # All steps at once, however many: of the input there is nothing to wait for.
        x = linear(input, self.weight_ih_l0, first)
        if x.dtype != first.dtype:
            # Autocast. Only the product over all steps is large enough to gain by it; what others lose would add up.
            with torch.autocast(x.device.type, enabled=False):
                output = self.steps(x.to(first.dtype), s.to(first.dtype), mask, weights, biases)
        else:
            output = self.steps(x, s, mask, weights, biases)
        return output, output[-1:]

    @staticmethod
    def steps(x: Tensor, s: Tensor, mask: Tensor | None, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        """The state after every step in time, see :func:`leanrnn.layers.highway_steps.plain_steps`."""
        return (quick_steps if _learns(x, s, *weights) else plain_steps)(x, s, mask, weights, biases)

    def after_cut(self, kept: Callable[[str, int], tuple[int, Sequence[int]] | None], plain: bool) -> None:
        """Called when components were cut out: of which tensors and axes ``kept`` tells."""
        self.input_size, self.hidden_size = self.weight_ih_l0.size(1), self.get_parameter("weight_hh_l0").size(1)
        cut = kept("weight_hh_l0", 1)
        if plain:
            self.former = None
        elif cut is not None:
            self.former = compose(self.former or {}, *cut)

    def extra_repr(self) -> str:
        """What ``print`` tells."""
        return f"{self.input_size}, {self.hidden_size}, depth={self.depth}"

    def _all(self, name: str) -> list[Tensor]:
        return [getattr(self, f"{name}_l{i}") for i in range(self.depth)]

    def _mask(self, like: Tensor, p: float) -> Tensor:
        return dropout(torch.ones_like(like), p, self.training)

    def _check(self, input: Tensor) -> None:
        if input.dim() != 3:
            raise LayerError(
                f"the input has the shape {tuple(input.shape)}. Give three axes: time, batch and {self.input_size} "
                "numbers; a single step has a time axis of length 1."
            )
        if input.size(-1) != self.input_size:
            raise LayerError(f"the input is {input.size(-1)} wide and the layer reads {self.input_size}.")
        if input.size(0) == 0:
            raise LayerError("the input has no step. Give at least one.")

    def _initial(self, input: Tensor, state: Tensor | None) -> Tensor:
        """The state (batch, width) to start from."""
        wanted = (1, input.size(1), self.hidden_size)
        if state is None:
            return input.new_zeros(wanted[1:])
        state = narrow(state, self.hidden_size, self.former or {})
        if state.shape != wanted:
            raise LayerError(f"the state has the shape {tuple(state.shape)} and not {wanted}: 1, batch, width.")
        return state[0]


def _learns(*tensors: Tensor) -> bool:
    """Whether there is a way back to prepare."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
