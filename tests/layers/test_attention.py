"""Attention with widths of its own, against torch's module and after a cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn import layers
from tests.discovery.test_corners import cut, x
from tests.support.families import Run

LENGTH, KEYS, BATCH = 4, 5, 3
KEYS_GONE = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])


def ours(module: nn.MultiheadAttention) -> layers.MultiheadAttention:
    module.__class__ = layers.MultiheadAttention
    module.scale = module.head_dim**-0.5
    return module


CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no weights": {"need_weights": False},
    "weights of every head": {"average_attn_weights": False},
    "padding": {"key_padding_mask": KEYS_GONE},
    "mask of truths": {"attn_mask": torch.triu(torch.ones(LENGTH, KEYS, dtype=torch.bool), 2)},
    "mask of numbers": {"attn_mask": torch.linspace(-1, 1, LENGTH * KEYS).view(LENGTH, KEYS).double()},
    "mask for every head": {"attn_mask": torch.linspace(-1, 1, 6 * LENGTH * KEYS).view(6, LENGTH, KEYS).double()},
    "both masks": {
        "key_padding_mask": KEYS_GONE,
        "attn_mask": torch.triu(torch.ones(LENGTH, KEYS, dtype=torch.bool), 3),
    },
}


@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"batch_first": True}, {"kdim": 6, "vdim": 7}, {"add_zero_attn": True},
                {"add_bias_kv": True}]
)  # fmt: skip
@pytest.mark.parametrize("name", CALLS)
def test_same_as_torch(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, **options).double()
    widths = (8, options.get("kdim", 8), options.get("vdim", 8))
    given = [torch.randn(n, BATCH, w).double() for n, w in zip((LENGTH, KEYS, KEYS), widths, strict=True)]
    if options.get("batch_first"):
        given = [t.transpose(0, 1) for t in given]
    expected = module(*given, **CALLS[name])
    torch.testing.assert_close(ours(module)(*given, **CALLS[name]), expected)


def test_without_a_batch_same_as_torch() -> None:
    module = nn.MultiheadAttention(8, 2)
    given = [torch.randn(n, 8) for n in (LENGTH, KEYS, KEYS)]
    masks = {"key_padding_mask": KEYS_GONE[1], "attn_mask": CALLS["mask of truths"]["attn_mask"]}
    expected = module(*given, **masks)
    torch.testing.assert_close(ours(module)(*given, **masks), expected)


def self_attention(m: Any, x: Tensor) -> Tensor:
    out = m.rnn(x)[0]
    return m.head(out + m.attention(out, out, out)[0])


@pytest.mark.parametrize("training", [False, True])
def test_layer_read_by_attention_shrinks(training: bool) -> None:
    attention = nn.MultiheadAttention(8, 2, dropout=0.1)
    model = Run(self_attention, rnn=nn.LSTM(5, 8), attention=attention, head=nn.Linear(8, 3)).train(training)
    small = cut(model, x(), {"rnn.l0": [0, 3, 4, 6, 7]})
    assert small.attention.in_proj_weight.shape == (24, 5) and small.attention.out_proj.weight.shape == (5, 8)
    again = cut(small, x(), {"rnn.l0": [0, 1, 4]})
    assert again.attention.embed_dim == 3 and again.attention.scale == 0.5


@pytest.mark.parametrize("training", [False, True])
def test_layer_read_by_an_encoder_shrinks(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = Run(
        lambda m, x: m.head(m.encoder(m.rnn(x)[0])),
        rnn=nn.GRU(5, 8),
        encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        head=nn.Linear(8, 3),
    ).train(training)
    small = cut(model, x(), {"rnn.l0": [0, 3, 4, 6, 7]})
    assert small.encoder.layers[1].linear1.in_features == 5


def test_queries_and_keys_of_two_widths() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        keys = m.b(x)[0]
        return m.head(m.attention(m.a(x)[0], keys, keys, need_weights=False)[0])

    attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=6)
    model = Run(forward, a=nn.GRU(5, 8), b=nn.GRU(5, 6), attention=attention, head=nn.Linear(8, 3))
    assert leanrnn.discover(model, x().float()).widths == {"a.l0": 8, "b.l0": 6}
    small = cut(model, x(), {"a.l0": [0, 1, 2], "b.l0": [5]})
    assert (small.attention.embed_dim, small.attention.kdim, small.attention.vdim) == (3, 1, 1)
