"""Convolution over time: the last frames are a state, which padding on the left makes of them."""

from __future__ import annotations

import torch
from torch import Tensor

from leanrnn.deploy.formats.c.code import item, moved
from leanrnn.deploy.formats.c.lowering import Call, Lowering, rule
from leanrnn.deploy.formats.c.rules.product import name_of

__all__: list[str] = []


@rule("pad", "constant_pad_nd")
def _pad(low: Lowering, call: Call) -> Tensor | None:
    """Zeros in front of the steps are those before them in a stream; elsewhere they are zeros."""
    x, pads = call["self"], list(call["pad"])
    if call.given.get("mode", "constant") != "constant":
        raise low.refused(call, f"pads with mode={call['mode']!r}, and a file of C with numbers alone.")
    value = float(call["value"] or 0)
    axes = {x.dim() - 1 - i: (pads[2 * i], pads[2 * i + 1]) for i in range(len(pads) // 2)}
    times = [axis for axis, pad in axes.items() if any(pad) and low.over_time(call.nodes["self"], axis)]
    if any(each < 0 for each in pads):
        raise low.refused(call, "cuts with a negative number. Use a slice.")
    if not times:
        low.write(call.result, call.node.name)
        low.each(call.result, "{0}", value)
        inner = call.result
        for axis, (left, _) in axes.items():
            inner = inner.narrow(axis, left, x.shape[axis])
        low.each(inner, "{0}", x)
        return None
    others = [axis for axis, pad in axes.items() if any(pad) and axis not in times]
    if others or len(times) > 1 or x.dim() != 3 or value:
        raise low.refused(call, "pads more than the steps with zeros. Pad the other axes in a call of their own.")
    (axis,) = times
    return _stream(low, call, x, axis, *axes[axis])


def _stream(low: Lowering, call: Call, x: Tensor, axis: int, left: int, right: int) -> Tensor:
    """The frames before this one, this one, and zeros behind it, as a state: one frame after the other."""
    rest, features = [size for i, size in enumerate(x.shape) if i != axis], x.numel()
    base = torch.zeros(left + 1 + right, *rest)
    place = low.code.state(base.numel(), f"{low.module_of(call.node) or call.node.name}_past")
    low.kept.append(base)
    low.bind(base, place)
    low.ahead[base.untyped_storage().data_ptr()] = right
    result = base.movedim(0, axis)
    if left:
        low.code.copy(place, f"{place} + {features}", left * features)
    low.each(result.narrow(axis, left, 1), "{0}", x)
    return result


@rule("conv1d")
def _conv(low: Lowering, call: Call) -> Tensor:
    """Products of weights with the frames of a window."""
    x, weight, groups = call["input"], call["weight"], call["groups"]
    (stride,), (dilation,), padding = _one(call["stride"]), _one(call["dilation"]), call["padding"]
    if low.computed(weight) or (x.dim() == 3 and x.shape[0] != 1):
        raise low.refused(call, "has weights that only a run knows, or several sequences. A file of C takes one.")
    reach = (weight.shape[2] - 1) * dilation
    streams = low.over_time(call.nodes["input"], -1)
    if streams and stride != 1:
        raise low.refused(call, f"has a stride of {stride}: it does not give a frame for each. Take a stride of 1.")
    sides = (
        (reach // 2, reach - reach // 2) if padding == "same" else (0, 0) if padding == "valid" else _one(padding) * 2
    )
    x = _frames(low, call, x, sides, streams)
    ahead = low.ahead.get(x.untyped_storage().data_ptr(), 0)
    count = (x.shape[-1] - reach - 1) // stride + 1 - ahead
    if count < 1:
        raise low.refused(
            call, f"reads {1 - count} frames ahead of the one that it is given. Pad on the left alone: "
            f"torch.nn.functional.pad(x, ({reach}, 0)), and padding=0.",
        )  # fmt: skip
    out, channels = weight.shape[0], weight.shape[1] * groups
    base = torch.zeros(count + ahead, out)
    low.kept.append(base)
    target, source = low.write(base, call.node.name), low.places[x.untyped_storage().data_ptr()]
    low.ahead[base.untyped_storage().data_ptr()] = ahead
    bias = "" if call["bias"] is None else low.constant(call["bias"], name_of(call, "bias"))
    for t in range(count):
        begin_at = x.storage_offset() + t * stride * channels
        here = f"{target} + {t * out}" if t else target
        low.code.copy(here, bias, out)
        _products(low, here, (source, begin_at), weight, (dilation, groups), name_of(call, "weight"))
    if ahead:
        low.code.copy(f"{target} + {count * out}", "", ahead * out)
    return base.t().reshape(call.result.shape) if base.t().shape == call.result.shape else base.t().unsqueeze(0)


def _frames(low: Lowering, call: Call, x: Tensor, sides: tuple[int, ...], streams: bool) -> Tensor:
    """The input with one frame after the other, and what is padded."""
    left, right = sides
    if streams and (left or right):
        return _stream(low, call, x, x.dim() - 1, left, right)
    channels, frames = x.shape[-2:]
    if not (left or right) and x.stride(-2) == 1 and (frames == 1 or x.stride(-1) == channels):
        return x
    base = torch.zeros(left + frames + right, channels)
    low.kept.append(base)
    place = low.write(base, f"{call.node.name}_frames")
    if left or right:
        low.code.copy(place, "", base.numel())
    result = base.t() if x.dim() == 2 else base.t().unsqueeze(0)
    low.each(result.narrow(-1, left, frames), "{0}", x)
    if ahead := low.ahead.get(x.untyped_storage().data_ptr()):
        low.ahead[base.untyped_storage().data_ptr()] = ahead
    return result


def _products(
    low: Lowering, target: str, source: tuple[str, int], weight: Tensor, shape: tuple[int, int], name: str
) -> None:
    """One product if the frames of the window follow each other, one for each of them and each group if not."""
    place, begin_at = source
    (dilation, groups), (out, inside, kernel) = shape, weight.shape
    if groups == 1 and dilation == 1:
        low.code.add_product(target, moved(place, begin_at), weight.transpose(1, 2).flatten(1), name)
        return
    for tap in range(kernel):
        frame = begin_at + tap * dilation * inside * groups
        if inside == 1 and out == groups:
            array = low.constant(weight[:, 0, tap].contiguous(), f"{name}_{tap}")
            low.code.add(
                f"for (int i = 0; i < {out}; i++)",
                f"    {item(target)} += {array}[i] * {item(moved(place, frame))};",
            )
            low.code.mult_adds += out
            continue
        for group, rows in enumerate(weight[:, :, tap].chunk(groups)):
            here = moved(target, group * (out // groups))
            low.code.add_product(here, moved(place, frame + group * inside), rows, f"{name}_{tap}_{group}")


def _one(value: int | list[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)
