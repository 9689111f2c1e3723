"""What the operators of leanrnn are in ONNX: one recurrent node each, its weights in ONNX's order of gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from leanrnn.deploy import operators  # noqa: F401  (registers them)

__all__ = ["ORDER", "table"]

ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Torch has the gates of an LSTM as i f g o and those of a GRU as r z n; ONNX wants i o f c and z r h."""


def table() -> dict[Any, Callable[..., Any]]:
    """For ``torch.onnx.export(custom_translation_table=)``."""
    ops = torch.ops.leanrnn
    return {
        ops.lstm.default: _lstm,
        ops.gru.default: _gru,
        ops.rnn.default: _rnn,
        ops.longest.default: _longest,
        torch.ops.aten.squeeze.dim: _squeeze,
        torch.ops.aten.squeeze.dims: _squeeze,
    }


def _lstm(x: Any, h: Any, c: Any, *layer: Any) -> Any:
    y, h, c = _layer("LSTM", x, (h, c), *layer)
    return y, h, c


def _gru(x: Any, h: Any, *layer: Any) -> Any:
    # Torch multiplies with the reset gate after the recurrent product, not before.
    return _layer("GRU", x, (h,), *layer, linear_before_reset=1)


def _rnn(x: Any, h: Any, *layer: Any) -> Any:
    *rest, activation = layer
    return _layer("RNN", x, (h,), *rest, activations=[{"tanh": "Tanh", "relu": "Relu"}[activation]])


def _layer(
    kind: str, x: Any, state: tuple[Any, ...], w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, lengths: Any, reverse: bool,
    **more: Any,
) -> Any:  # fmt: skip
    op = _opset()
    width = w_hh.shape[1]
    first, second = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    rows = [row for gate in ORDER[kind] for row in range(gate * width, (gate + 1) * width)]

    def ordered(weight: Any) -> Any:
        return op.Gather(weight, op.Constant(value_ints=rows), axis=0)

    bias = None
    if b_ih is not None:
        bias = op.Unsqueeze(op.Concat(ordered(b_ih), ordered(b_hh), axis=0), first)
    sizes = None if lengths is None else op.Cast(lengths, to=6)  # to int32, which the operator takes
    y, *last = getattr(op, kind)(
        x, op.Unsqueeze(ordered(w_ih), first), op.Unsqueeze(ordered(w_hh), first), bias, sizes, *state,
        hidden_size=int(width), direction="reverse" if reverse else "forward", **more,
    )  # fmt: skip
    return op.Squeeze(y, second), *last


def _longest(x: Any, lengths: Any) -> Any:
    op = _opset()
    first = op.Constant(value_ints=[0])
    return op.Slice(x, first, op.Reshape(op.ReduceMax(lengths), op.Constant(value_ints=[1])), first)


def _squeeze(x: Any, axes: Any) -> Any:
    """As torch has it, which leaves an axis alone that is longer than one; whether it is may be known in a run only."""
    op = _opset()
    sizes = {axis: x.shape[axis] for axis in ([axes] if isinstance(axes, int) else axes)} if len(x.shape) else {}
    if any(not isinstance(size, int) for size in sizes.values()):
        kept = [int(axis not in {a % len(x.shape) for a in sizes}) for axis in range(len(x.shape))]
        shape, one = op.Shape(x), op.Constant(value_ints=[1])
        longer = op.Not(op.Equal(shape, one))
        stays = op.Or(longer, op.Equal(op.Constant(value_ints=kept), one))
        return op.Reshape(x, op.Compress(shape, stays, axis=0), allowzero=1)
    gone = [axis for axis, size in sizes.items() if size == 1]
    return op.Squeeze(x, op.Constant(value_ints=gone)) if gone else op.Identity(x)


def _opset() -> Any:
    import onnxscript

    return onnxscript.opset20
