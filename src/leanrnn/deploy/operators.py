"""One layer, one direction of an LSTM, GRU or RNN as an operator of its own, so that an exported graph keeps it whole.

torch's own exporter takes the fused operators apart into their steps, or freezes the number of steps it saw. These say
their shapes for any number of steps, and :mod:`leanrnn.deploy.formats.onnx.translate` says what they are in ONNX. They
also compute, so that a traced program can be run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from leanrnn.layers.fused import backwards, one_layer, reversal

__all__ = ["gru", "longest", "lstm", "rnn"]

Maybe = Tensor | None


_LAYER = "Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, Tensor? lengths, bool reverse"


@custom_op(
    "leanrnn::lstm",
    mutates_args=(),
    schema=f"(Tensor x, Tensor? h, Tensor? c, {_LAYER}) -> (Tensor, Tensor, Tensor)",
)
def lstm(x: Tensor, h: Maybe, c: Maybe, *layer: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs (time, batch, width) and the last h and c, each (1, batch, width); time first, zeros after a sequence."""
    y, (h, c) = _computed("LSTM", x, [h, c], *layer)
    return y, h, c


@custom_op("leanrnn::gru", mutates_args=(), schema=f"(Tensor x, Tensor? h, {_LAYER}) -> (Tensor, Tensor)")
def gru(x: Tensor, h: Maybe, *layer: Any) -> tuple[Tensor, Tensor]:
    """Outputs and the last h."""
    y, (h,) = _computed("GRU", x, [h], *layer)
    return y, h


@custom_op(
    "leanrnn::rnn",
    mutates_args=(),
    schema=f"(Tensor x, Tensor? h, {_LAYER}, str activation) -> (Tensor, Tensor)",
)
def rnn(x: Tensor, h: Maybe, *layer: Any) -> tuple[Tensor, Tensor]:
    """Outputs and the last h; the activation is tanh or relu."""
    *rest, activation = layer
    y, (h,) = _computed(f"RNN_{activation.upper()}", x, [h], *rest)
    return y, h


@custom_op("leanrnn::longest", mutates_args=(), schema="(Tensor x, Tensor lengths) -> Tensor")
def longest(x: Tensor, lengths: Tensor) -> Tensor:
    """Time-first data up to the end of its longest sequence."""
    return x[: int(lengths.max())].clone()


@lstm.register_fake
def _(x: Tensor, h: Maybe, c: Maybe, w_ih: Tensor, w_hh: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    y, state = _shapes(x, [h, c], w_ih, w_hh, rest[2])
    return x.new_empty(y), x.new_empty(state), x.new_empty(state)


@gru.register_fake
@rnn.register_fake
def _(x: Tensor, h: Maybe, w_ih: Tensor, w_hh: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    y, state = _shapes(x, [h], w_ih, w_hh, rest[2])
    return x.new_empty(y), x.new_empty(state)


@longest.register_fake
def _(x: Tensor, lengths: Tensor) -> Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), *x.shape[1:])


def _shapes(x: Tensor, state: list[Maybe], w_ih: Tensor, w_hh: Tensor, lengths: Maybe) -> tuple[list[Any], list[Any]]:
    """Of the outputs and of the last state."""
    shape = [1, x.size(1), w_hh.size(1)]
    _equal([x.size(2)], [w_ih.size(1)], "what a recurrent layer reads")
    for part in state:
        if part is not None:
            _equal(list(part.shape), shape, "a state")
    if lengths is not None:
        _equal([lengths.size(0)], [x.size(1)], "the lengths of the sequences")
    return [x.size(0), *shape[1:]], shape


def _equal(found: list[Any], wanted: list[Any], what: str) -> None:
    """Tell tracing, which then knows two lengths as one."""
    for size, other in zip(found, wanted, strict=True):
        torch._check(size == other, lambda: f"{what}: {found} instead of {wanted}")  # type: ignore[no-untyped-call]


def _computed(
    mode: str, x: Tensor, state: list[Maybe], w_ih: Tensor, w_hh: Tensor, b_ih: Maybe, b_hh: Maybe, lengths: Maybe,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """With torch's fused operators, on packed data where there are lengths."""
    weights = [w for w in (w_ih, w_hh, b_ih, b_hh) if w is not None]
    start = tuple(x.new_zeros(1, x.size(1), w_hh.size(1)) if part is None else part for part in state)
    if lengths is None:
        y, last = one_layer(mode, x.flip(0) if reverse else x, None, start, weights, len(weights) > 2, False)
        return y.flip(0) if reverse else y.clone(), tuple(part.clone() for part in last)
    packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
    data, sizes, order, back = packed
    assert order is not None and back is not None
    start = tuple(part.index_select(1, order) for part in start)
    turn = reversal(sizes) if reverse else None
    y, last = one_layer(
        mode, backwards(data, turn) if reverse else data, sizes, start, weights, len(weights) > 2, False
    )
    padded, _ = pad_packed_sequence(
        type(packed)(backwards(y, turn) if reverse else y, sizes, order, back), total_length=x.size(0)
    )
    return padded, tuple(part.index_select(1, back) for part in last)
