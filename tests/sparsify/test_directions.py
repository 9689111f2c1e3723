"""Weight-normalised layers and layers behind a norm die under the default settings, and nothing becomes NaN."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from leanrnn.discovery.discover import discover
from leanrnn.sparsify.sparsifier import Sparsifier
from leanrnn.surgery.shrink import shrink


class Tagger(nn.Module):
    """An LSTM, a norm of the caller's choice and a head."""

    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        self.rnn, self.between, self.head = nn.LSTM(3, 12), between, nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.between(self.rnn(x)[0]))


def train(model: nn.Module, steps: int = 400) -> Sparsifier:
    """Learns something that needs few components."""
    groups = discover(model, torch.randn(4, 2, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    sparsifier = Sparsifier(groups, strength=0.05, mode="proximal").attach(optimizer)
    for _ in range(steps):
        x = torch.randn(4, 8, 3)
        optimizer.zero_grad()
        (model(x) - x[..., :2].tanh()).square().mean().backward()
        optimizer.step()
    return sparsifier


def expect_dead(model: nn.Module, sparsifier: Sparsifier) -> None:
    (layer,) = sparsifier.status().layers
    assert 0 < layer.alive < 12 and all(p.isfinite().all() for p in model.parameters())
    small = shrink(model, sparsifier.groups)
    assert sparsifier.compact()
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(small(x), model(x))


def test_behind_a_layer_norm_biases_are_penalised_too():
    model = Tagger(nn.LayerNorm(12))
    sparsifier = train(model)
    assert sparsifier.groups[0].needs_zero_bias and "rnn.bias_ih_l0" in sparsifier.touches
    expect_dead(model, sparsifier)


def test_directions_keep_unit_length():
    model = Tagger(nn.Identity())
    model.head = weight_norm(model.head)
    sparsifier = train(model)
    direction = model.head.parametrizations.weight.original1
    torch.testing.assert_close(direction.norm(dim=1), torch.ones(2), rtol=0, atol=1e-3)
    expect_dead(model, sparsifier)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_directions_of_the_former_weight_norm():
    model = Tagger(nn.Identity())
    model.head = nn.utils.weight_norm(model.head)
    train(model, steps=20)
    torch.testing.assert_close(model.head.weight_v.norm(dim=1), torch.ones(2), rtol=0, atol=1e-3)
