"""A recurrent cell of your own, in raw matrix products: its groups are found, chosen for a budget, cut out while it
trains, and the rest is an ONNX file for any length. Nothing in leanrnn knows this cell.

python examples/own_cell.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import leanrnn


class Memory(nn.Module):
    """A cell with one gate, which decides at every step how much of the old state stays; time first."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.from_input = nn.Parameter(torch.randn(inputs, 2 * width) * inputs**-0.5)
        self.from_state = nn.Parameter(torch.randn(width, 2 * width) * width**-0.5)
        self.bias = nn.Parameter(torch.zeros(2 * width))
        self.read = nn.Parameter(torch.randn(width, 1) * width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """One number for every step of every sequence."""
        state, found = x.new_zeros(x.size(1), self.from_state.size(0)), []
        for step in x:
            gate, new = (step @ self.from_input + state @ self.from_state + self.bias).chunk(2, -1)
            state = torch.lerp(state, new.tanh(), gate.sigmoid())
            found.append(state)
        return (torch.stack(found) @ self.read).squeeze(-1)


def batch(steps: int = 20) -> tuple[Tensor, Tensor]:
    """Two numbers a step; wanted is the running mean of the first ones so far, wherever the second one is positive."""
    x = torch.randn(steps, 64, 2)
    use = (x[..., 1] > 0).float()
    return x, (x[..., 0] * use).cumsum(0) / use.cumsum(0).clamp(min=1)


def main(steps: int = 600, out: str = "own_cell.onnx") -> tuple[nn.Module, float]:
    """Train, shrink, export; the small model, and its last loss."""
    torch.manual_seed(0)
    model = Memory(2, 32)
    groups = leanrnn.discover(model, batch()[0])
    print(groups)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    budget = leanrnn.Budget(mult_adds="25%")
    leanrnn.Sparsifier(groups, budget=budget, steps=steps).attach(optimizer)
    for _ in range(steps):
        x, wanted = batch()
        loss = mse_loss(model(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    small = leanrnn.shrink(model, groups)
    print(f"loss {loss.item():.4f}, 32 units became {small.from_state.size(0)}")
    print(leanrnn.export(small, batch()[0], out))
    return small, loss.item()


if __name__ == "__main__":
    main()
