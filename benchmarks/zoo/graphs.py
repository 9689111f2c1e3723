"""Graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Built, Hold, entry


class GatedGraph(nn.Module):
    """Message passing by a GRU cell, pooling by an LSTM, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GatedGraphConv
        from torch_geometric.nn.aggr import Set2Set

        self.messages, self.pool, self.head = GatedGraphConv(8, 3), Set2Set(8, 3), nn.Linear(16, 2)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor) -> Tensor:
        """Two scores for every graph."""
        return self.head(self.pool(self.messages(x, edges), graph))


@entry(
    "torch-geometric",
    "torch_geometric.nn.GatedGraphConv",
    "a GRU cell fed with messages made from its state, started from the features of the nodes; Set2Set",
    holds=(
        Hold(
            "messages.rnn: is an axis of input 0",
            "Interface",
            "The first state of the GRU is the input itself: `x = self.rnn(m, x)` (`GatedGraphConv.forward`).",
        ),
        Hold(
            "pool.lstm.l0: is an axis of input 0",
            "Interface",
            "`(x * q[index]).sum(dim=-1)` in `Set2Set.forward` multiplies the LSTM's output with the features "
            "that the GRU gives, one by one, so it is as wide as these.",
        ),
    ),
)
def pyg_gatedgraph() -> Built:
    """Five nodes in two graphs."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 0]])
    return GatedGraph().eval(), (torch.randn(5, 8), edges, torch.tensor([0, 0, 0, 1, 1]))
