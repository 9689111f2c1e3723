"""More families: heads, attention, encoder and decoder, norms, convolutions, containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from tests.support.families import FAMILIES, Family, H, Run, _x, family


def _pooled(pool: Callable[[Any, Any, Any], Tensor], width: int = H, **options: Any) -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        out, h = m.rnn(x)
        return m.head(pool(m, out, h))

    model = Run(
        forward, rnn=nn.GRU(5, H, 2, batch_first=True, **options), head=nn.Linear(width, 3), score=nn.Linear(H, 1)
    )
    reverse = ("", "_reverse") if options.get("bidirectional") else ("",)
    return Family(model, _x(), {f"rnn.l{i}{d}": H for i in (0, 1) for d in reverse})


FAMILIES["head_h_n"] = lambda: _pooled(lambda m, out, h: h[-1])
FAMILIES["head_last_output"] = lambda: _pooled(lambda m, out, h: out[:, -1])
FAMILIES["head_mean"] = lambda: _pooled(lambda m, out, h: out.mean(1))
FAMILIES["head_max"] = lambda: _pooled(lambda m, out, h: out.max(1).values)
FAMILIES["head_attention"] = lambda: _pooled(lambda m, out, h: (m.score(out).softmax(1) * out).sum(1))
FAMILIES["head_both_directions"] = lambda: _pooled(
    lambda m, out, h: torch.cat([h[-2], h[-1]], -1), 2 * H, bidirectional=True
)
FAMILIES["flatten_time_and_hidden"] = lambda: _pooled(lambda m, out, h: out.flatten(1), 2 * H)


def _encoder_decoder(attend: Callable[[Any, Tensor, Tensor], Tensor] | None, **parts: nn.Module) -> Run:
    def forward(m: Any, source: Tensor, target: Tensor) -> Tensor:
        memory, state = m.encoder(source)
        out, _ = m.decoder(target, state)
        return m.head(out if attend is None else attend(m, out, memory))

    return Run(forward, encoder=nn.LSTM(5, H), decoder=nn.LSTM(4, H), **parts)


@family
def encoder_decoder() -> Family:
    model = _encoder_decoder(None, head=nn.Linear(H, 3))
    return Family(model, (_x(), _x(size=4)), {"encoder.l0": H})


@family
def dot_attention() -> Family:
    def attend(m: Any, out: Tensor, memory: Tensor) -> Tensor:
        query, keys = out.transpose(0, 1), memory.transpose(0, 1)
        context = (query @ keys.transpose(1, 2)).softmax(-1) @ keys
        return torch.cat([query, context], -1)

    model = _encoder_decoder(attend, head=nn.Linear(2 * H, 3))
    return Family(model, (_x(), _x(size=4)), {"encoder.l0": H})


@family
def additive_attention() -> Family:
    def attend(m: Any, out: Tensor, memory: Tensor) -> Tensor:
        keys = m.key(memory).unsqueeze(1) + m.query(out).unsqueeze(0)
        weights = m.score(torch.tanh(keys)).softmax(0)
        return torch.cat([out, (weights * memory.unsqueeze(1)).sum(0)], -1)

    parts = {"key": nn.Linear(H, 4), "query": nn.Linear(H, 4), "score": nn.Linear(4, 1), "head": nn.Linear(2 * H, 3)}
    return Family(_encoder_decoder(attend, **parts), (_x(), _x(size=4)), {"encoder.l0": H})


@family
def used_twice() -> Family:
    def forward(m: Any, a: Tensor, b: Tensor) -> Tensor:
        return m.head((m.rnn(a)[1][0] - m.rnn(b)[1][0]).abs())

    return Family(Run(forward, rnn=nn.GRU(5, H), head=nn.Linear(H, 3)), (_x(), _x()), {"rnn.l0": H})


@family
def tied_embedding() -> Family:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, H)
            self.rnn = nn.LSTM(H, H, 2)
            self.head = nn.Linear(H, 9)
            self.head.weight = self.embedding.weight

        def forward(self, words: Tensor) -> Tensor:
            return self.head(self.rnn(self.embedding(words))[0])

    return Family(Net(), torch.randint(0, 9, (4, 2)), {"rnn.l0": H, "rnn.l1": H})


def _normed(norm: nn.Module, transposed: bool = False) -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        out = m.rnn(x)[0]
        out = m.norm(out.transpose(1, 2)).transpose(1, 2) if transposed else m.norm(out)
        return m.head(out)

    model = Run(forward, rnn=nn.LSTM(5, H, batch_first=True), norm=norm, head=nn.Linear(H, 3))
    return Family(model, _x(), {"rnn.l0": H})


FAMILIES["layer_norm"] = lambda: _normed(nn.LayerNorm(H))
FAMILIES["batch_norm"] = lambda: _normed(nn.BatchNorm1d(H), transposed=True)
FAMILIES["group_norm"] = lambda: _normed(nn.GroupNorm(2, H), transposed=True)


@family
def conv1d_reads() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.conv(m.rnn(x)[0].transpose(1, 2))

    return Family(Run(forward, rnn=nn.GRU(5, H, batch_first=True), conv=nn.Conv1d(H, 3, 2)), _x(), {"rnn.l0": H})


@family
def conv2d_produces_and_reads() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        maps = torch.relu(m.front(x.unsqueeze(1)))
        out = m.rnn(maps.permute(2, 0, 1, 3).flatten(2))[0]
        return m.back(out.permute(1, 2, 0).unsqueeze(-1))

    parts = {"front": nn.Conv2d(1, 2, 3, padding=1), "rnn": nn.LSTM(10, H), "back": nn.Conv2d(H, 3, (2, 1))}
    return Family(Run(forward, **parts), _x(), {"rnn.l0": H})


@family
def learned_scale() -> Family:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(5, H), nn.Linear(H, 3)
            self.scale = nn.Parameter(torch.randn(H))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0] * self.scale)

    return Family(Net(), _x(), {"rnn.l0": H})


@family
def weight_normed() -> Family:
    rnn = weight_norm(weight_norm(nn.LSTM(5, H), "weight_hh_l0"), "weight_ih_l0")
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=rnn, head=weight_norm(nn.Linear(H, 3)))
    return Family(model, _x(), {"rnn": H})


@family
def with_transformer_layer() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(m.rnn(m.encoder(m.lift(x)))[0])

    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    parts = {"lift": nn.Linear(5, 8), "encoder": layer, "rnn": nn.LSTM(8, H, 2), "head": nn.Linear(H, 3)}
    return Family(Run(forward, **parts), _x(), {"rnn.l0": H, "rnn.l1": H})


@family
def module_list() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        for rnn in m.rnns:
            x = F.relu(rnn(x)[0])
        return m.head(x)

    rnns = nn.ModuleList([nn.GRU(5, H), nn.GRU(H, H), nn.GRU(H, H)])
    head = nn.Sequential(nn.Linear(H, 4), nn.ReLU(), nn.Linear(4, 3))
    return Family(Run(forward, rnns=rnns, head=head), _x(), {f"rnns.{i}.l0": H for i in range(3)})


@family
def parameter_list() -> Family:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.u = nn.ParameterList([torch.randn(5, H), torch.randn(H, H), torch.randn(H)])
            self.head = nn.Linear(H, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = x.new_zeros(x.size(1), self.u[1].size(0))
            for step in x:
                h = torch.tanh(step @ self.u[0] + h @ self.u[1] + self.u[2])
            return self.head(h)

    return Family(Net(), _x(), {"u": H})


@family
def half_pinned() -> Family:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.second(m.first(x)[0])[0]

    return Family(Run(forward, first=nn.LSTM(5, H, 2), second=nn.LSTM(H, H)), _x(), {"first.l0": H, "first.l1": H})


@family
def sequence_returned_too() -> Family:
    def forward(m: Any, x: Tensor) -> Any:
        out = m.second(m.first(x)[0])[0]
        return m.head(out), out

    parts = {"first": nn.LSTM(5, H), "second": nn.LSTM(H, H), "head": nn.Linear(H, 3)}
    return Family(Run(forward, **parts), _x(), {"first.l0": H})
