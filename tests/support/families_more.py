"""Families met in published code: last states, masks, split axes, home-made cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.families import FAMILIES, Family, H, Run, _x, family

TWO = {"rnn.l0": H, "rnn.l1": H}
LENGTHS = torch.tensor([2, 4, 1])


def _last(pick: Callable[[Tensor, Tensor], Tensor]) -> Family:
    model = Run(lambda m, x, n: m.head(pick(m.rnn(x)[0], n)), rnn=nn.GRU(5, H, 2), head=nn.Linear(H, 2))
    return Family(model, (_x(3), LENGTHS.clone()), TWO)


def _mask(out: Tensor, lengths: Tensor) -> Tensor:
    return (torch.arange(out.size(0))[:, None] < lengths[None]).unsqueeze(-1)


FAMILIES["last_by_gather"] = lambda: _last(
    lambda out, n: out.gather(0, (n - 1).view(1, -1, 1).expand(1, -1, out.size(2))).squeeze(0)
)
FAMILIES["last_by_index"] = lambda: _last(lambda out, n: out[n - 1, torch.arange(len(n))])
FAMILIES["masked_mean"] = lambda: _last(lambda out, n: (out * _mask(out, n)).sum(0) / n[:, None])
FAMILIES["masked_max"] = lambda: _last(lambda out, n: out.masked_fill(~_mask(out, n), -1e9).max(0).values)


def _both(join: Callable[[Tensor], Tensor], width: int, widths: dict[str, int]) -> Family:
    rnn = nn.LSTM(5, H, bidirectional=True)
    model = Run(lambda m, x: m.head(join(m.rnn(x)[0])), rnn=rnn, head=nn.Linear(width, 2))
    return Family(model, _x(), widths)


FAMILIES["directions_added"] = lambda: _both(lambda y: sum(y.chunk(2, -1)), H, {"rnn.l0": H})  # type: ignore[arg-type]
FAMILIES["directions_viewed"] = lambda: _both(lambda y: y.unflatten(-1, (2, -1)).sum(2), H, {"rnn.l0": H})
FAMILIES["directions_apart"] = lambda: _both(lambda y: torch.tanh(y) * 2, 2 * H, {"rnn.l0": H, "rnn.l0_reverse": H})


@family
def state_viewed_by_layer_and_direction() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.rnn(x)[1].view(2, 2, x.size(1), -1)
        return m.head(torch.cat([h[-1, 0], h[-1, 1]], -1))

    return Family(Run(forward, rnn=nn.GRU(5, H, 2, bidirectional=True), head=nn.Linear(2 * H, 2)), _x(), {"rnn.l0": H})


@family
def state_directions_joined_by_slices() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.rnn(x)[1]
        return m.head(torch.cat([h[0 : h.size(0) : 2], h[1 : h.size(0) : 2]], 2))

    # Slices of the state are joined as tensors, which takes one width for all layers and directions.
    return Family(Run(forward, rnn=nn.GRU(5, H, 2, bidirectional=True), head=nn.Linear(2 * H, 2)), _x(), {"rnn.l0": H})


@family
def split_into_heads() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.rnn(x)[0].transpose(0, 1)
        q = h.view(h.size(0), h.size(1), 2, -1).transpose(1, 2)
        mixed = (q @ q.transpose(-1, -2)).softmax(-1) @ q
        return m.head(mixed.transpose(1, 2).reshape(h.size(0), h.size(1), -1))

    return Family(Run(forward, rnn=nn.LSTM(5, H), head=nn.Linear(H, 2)), _x(), {"rnn.l0": H // 2})


@family
def outer_product_flattened() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        a, b = m.a(x)[0], m.b(x)[0]
        return m.head(m.norm((a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(2)))

    parts = {"a": nn.LSTM(5, 4), "b": nn.GRU(5, 3), "norm": nn.LayerNorm(12), "head": nn.Linear(12, 2)}
    return Family(Run(forward, **parts), _x(), {"a.l0": 4, "b.l0": 3})


@family
def cosine_similarity() -> Family:
    model = Run(lambda m, x, y: F.cosine_similarity(m.rnn(x)[1][-1], m.rnn(y)[1][-1]), rnn=nn.GRU(5, H, 2))
    return Family(model, (_x(3), _x(3)), TWO)


@family
def bilinear() -> Family:
    model = Run(
        lambda m, x, y: m.both(m.a(x)[1][0], m.b(y)[1][0]), a=nn.GRU(5, H), b=nn.GRU(5, 4), both=nn.Bilinear(H, 4, 3)
    )
    return Family(model, (_x(3), _x(3)), {"a.l0": H, "b.l0": 4})


@family
def depthwise_convolution() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(m.conv(m.rnn(x)[0].permute(1, 2, 0)).transpose(1, 2))

    parts = {"rnn": nn.GRU(5, H), "conv": nn.Conv1d(H, H, 3, padding=1, groups=H), "head": nn.Linear(H, 2)}
    return Family(Run(forward, **parts), _x(), {"rnn.l0": H})


@family
def greedy_decoder() -> Family:
    def forward(m: Any, start: Tensor) -> Tensor:
        h = c = m.cell.weight_hh.new_zeros(len(start), m.cell.hidden_size)
        word, outs = start, []
        for _ in range(3):
            h, c = m.cell(m.words(word), (h, c))
            outs.append(m.head(h))
            word = outs[-1].argmax(-1)
        return torch.stack(outs)

    parts = {"words": nn.Embedding(7, 5), "cell": nn.LSTMCell(5, H), "head": nn.Linear(H, 7)}
    return Family(Run(forward, **parts), torch.zeros(2, dtype=torch.long), {"cell": H})


@family
def attending_decoder() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        memory, h = m.encoder(x)
        h, outs = torch.tanh(m.bridge(torch.cat([h[0], h[1]], 1))), []
        for t in range(x.size(1)):
            scores = m.v(torch.tanh(m.k(memory) + m.q(h).unsqueeze(1))).squeeze(-1)
            context = torch.bmm(scores.softmax(-1).unsqueeze(1), memory).squeeze(1)
            h = m.cell(torch.cat([x[:, t], context], 1), h)
            outs.append(m.head(torch.cat([h, context], 1)))
        return torch.stack(outs, 1)

    encoder = nn.GRU(5, H, bidirectional=True, batch_first=True)
    linear = {"bridge": nn.Linear(2 * H, 4), "k": nn.Linear(2 * H, 3), "q": nn.Linear(4, 3), "v": nn.Linear(3, 1)}
    parts = {"encoder": encoder, "cell": nn.GRUCell(5 + 2 * H, 4), "head": nn.Linear(4 + 2 * H, 7)}
    # The width of the attention lies on the cycle through the decoder too.
    widths = {"encoder.l0": H, "encoder.l0_reverse": H, "k": 3, "cell": 4}
    return Family(Run(forward, **parts, **linear), _x(), widths)


@family
def layer_norm_lstm() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.size(1), m.hh.in_features)
        for step in x:
            i, f, g, o = m.gates(m.ih(step) + m.hh(h)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * m.norm(c).tanh()
        return m.head(h)

    norms = {"gates": nn.LayerNorm(4 * H), "norm": nn.LayerNorm(H)}
    parts = {"ih": nn.Linear(5, 4 * H), "hh": nn.Linear(H, 4 * H), "head": nn.Linear(H, 2)}
    return Family(Run(forward, **parts, **norms), _x(), {"hh": H})


@family
def independent_rnn() -> Family:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.head = nn.Linear(5, H), nn.Linear(H, 2)
            self.u = nn.Parameter(torch.rand(H))

        def forward(self, x: Tensor) -> Tensor:
            h = x.new_zeros(x.size(1), self.u.size(0))
            for step in x:
                h = torch.relu(self.w(step) + self.u * h)
            return self.head(h)

    return Family(Net(), _x(), {"w": H})


@family
def convolutional_lstm() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.size(0), m.head.in_channels, *x.shape[-2:])
        for t in range(x.size(1)):
            i, f, g, o = m.conv(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return m.head(h)

    model = Run(forward, conv=nn.Conv2d(2 + H, 4 * H, 3, padding=1), head=nn.Conv2d(H, 1, 1))
    return Family(model, torch.randn(2, 3, 2, 4, 4), {"conv": H})
