"""Windows that slide: pooling, resizing, padding, unfolding, sampling on a grid."""

from __future__ import annotations

import numpy as np

from leanrnn.discovery.labels import Value, take
from leanrnn.discovery.rules.base import Call, fixed_axes, pin_axes, rule, unsure, unsure_value
from leanrnn.discovery.rules.conv import fold
from leanrnn.discovery.rules.pointwise import pointwise_values

_SIZES = ("1d", "2d", "3d")


@rule(
    "aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d", "aten.max_pool2d_with_indices",
    "aten.max_pool3d_with_indices", "aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d",
    "aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d", "aten.adaptive_max_pool2d",
    "aten.adaptive_max_pool3d",
    "aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d", "aten._upsample_nearest_exact1d",
    "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact3d", "aten.upsample_linear1d",
    "aten.upsample_bilinear2d", "aten.upsample_trilinear3d", "aten.upsample_bicubic2d", "aten._upsample_bilinear2d_aa",
    "aten._upsample_bicubic2d_aa", "aten._upsample_lanczos2d_aa", "aten.reflection_pad1d", "aten.reflection_pad2d",
    "aten.reflection_pad3d", "aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d",
)  # fmt: skip
def _window(call: Call) -> Value | list[Value]:
    """A window over the last axes; the axes before them are independent."""
    value: Value = call["self"] if "self" in call.arguments else call["input"]
    axes = _last(call, value)
    spared = pin_axes(call, value, axes, f"is slid over by {call.name}").factors
    results = []
    for i, shape in enumerate(call.shapes):
        new = fixed_axes(call.ties, shape, axes, f"is the length that comes out of {call.name}")
        sure = i == 0  # a second result is the index of what was chosen
        results.append(Value(shape, (*(f if sure else unsure(f) for f in spared), *new), value.zero and sure))
    return results[0] if len(results) == 1 else results


def _last(call: Call, value: Value) -> range:
    count = next(i for i, size in enumerate(_SIZES, 1) if size in call.name)
    return range(value.ndim - count, value.ndim)


@rule("aten.max_unpool2d", "aten.max_unpool3d")
def _unpool(call: Call) -> Value:
    """Back to where the maxima stood."""
    value, indices = call["self"], call["indices"]
    met = pointwise_values(call.ties, [value, indices], value.shape, [(0,)])
    axes = _last(call, value)
    spared = pin_axes(call, met, axes, f"is spread out by {call.name}").factors
    return Value(call.shape, spared + fixed_axes(call.ties, call.shape, axes, f"comes out of {call.name}"), value.zero)


@rule("aten.constant_pad_nd")
def _pad(call: Call) -> Value:
    value: Value = call["self"]
    pad = list(call["pad"])
    axes = [value.ndim - 1 - i for i in range(len(pad) // 2) if pad[2 * i] or pad[2 * i + 1]]
    spared = pin_axes(call, value, axes, "is padded")
    if axes and call.get("value", 0) != 0:
        spared = unsure_value(spared)
    return Value(call.shape, spared.factors + fixed_axes(call.ties, call.shape, axes, "is padded"), spared.zero)


@rule("aten.unfold")
def _unfold(call: Call) -> Value:
    if not call["self"].ndim:
        return Value(call.shape, fixed_axes(call.ties, call.shape, None, "is unfolded"), call["self"].zero)
    dim = call["self"].axis(int(call["dimension"]))
    spared = pin_axes(call, call["self"], [dim], "is unfolded into windows")
    new = fixed_axes(call.ties, call.shape, [dim, spared.ndim], "is unfolded into windows")
    return Value(call.shape, spared.factors + new, spared.zero)


@rule("aten.pixel_shuffle")
def _pixel_shuffle(call: Call) -> Value:
    """Blocks of channels become squares of pixels: the channels of a block leave together."""
    value: Value = call["self"]
    channel = value.ndim - 3
    spared = pin_axes(call, value, [channel + 1, channel + 2], "is spread out by pixel_shuffle")
    square = int(call["upscale_factor"]) ** 2
    order = np.arange(value.shape[channel]).reshape(-1, square).T.reshape(-1)
    once = fold(call.ties, take(spared, channel, order), channel, square)
    new = fixed_axes(call.ties, call.shape, [channel + 1, channel + 2], "comes out of pixel_shuffle")
    return Value(call.shape, once.factors + new, value.zero)


@rule("aten.pixel_unshuffle")
def _pixel_unshuffle(call: Call) -> Value:
    """Squares of pixels become channels, which leave together."""
    value: Value = call["self"]
    channel = value.ndim - 3
    spared = pin_axes(call, value, [channel + 1, channel + 2], "is gathered by pixel_unshuffle")
    spread = take(spared, channel, np.arange(value.shape[channel]).repeat(int(call["downscale_factor"]) ** 2))
    new = fixed_axes(call.ties, call.shape, [channel + 1, channel + 2], "comes out of pixel_unshuffle")
    return Value(call.shape, spread.factors + new, value.zero)


@rule("aten.channel_shuffle")
def _channel_shuffle(call: Call) -> Value:
    """Channel k of each group leaves together with channel k of every other group."""
    value: Value = call["self"]
    groups = int(call["groups"])
    once = fold(call.ties, value, 1, groups)
    return Value(call.shape, take(once, 1, np.arange(once.shape[1]).repeat(groups)).factors, value.zero)


@rule("aten.grid_sampler_2d", "aten.grid_sampler_3d", "aten._grid_sampler_2d_cpu_fallback")
def _grid(call: Call) -> Value:
    """Every channel of a sample is read at the same places, which the grid chooses."""
    value, grid = call["input"], call["grid"]
    spared = pin_axes(call, value, range(2, value.ndim), f"is sampled by {call.name}")
    rows = unsure_value(pin_axes(call, grid, [grid.ndim - 1], f"is a place for {call.name}"))
    to = {a: a + (a > 0) for a in range(grid.ndim - 1)}
    places = Value((grid.shape[0], 1, *grid.shape[1:-1]), tuple(f.moved(to) for f in rows.factors))
    image = Value((*value.shape[:2], *(1 for _ in grid.shape[1:-1])), spared.factors, value.zero)
    return pointwise_values(call.ties, [image, places], call.shape, [(0,)])


@rule("aten.affine_grid_generator")
def _affine_grid(call: Call) -> Value:
    rows = unsure_value(pin_axes(call, call["theta"], [1, 2], "is a matrix that makes a grid"))
    new = fixed_axes(call.ties, call.shape, range(1, len(call.shape)), "is a grid")
    return Value(call.shape, rows.factors + new)
