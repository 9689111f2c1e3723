"""Operators as recurrent models use them, with sizes and positions taken from the shapes of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.trial import Case

__all__ = ["CASES"]

A, B, C = (2, 3, 4), (3, 4), (4,)
"""Shapes with different sizes, so that no axis is taken for another."""

GENERATOR = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=GENERATOR)


def indices(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=GENERATOR)


def halves(x: Tensor) -> tuple[Tensor, ...]:
    return x.chunk(2, -1)


def half_by_slices(x: Tensor) -> Tensor:
    h = x.size(-1) // 2
    return x[..., :h].sigmoid() * x[..., h:].tanh()


def gates_viewed(x: Tensor) -> Tensor:
    gates = x.view(*x.shape[:-1], 3, -1)
    return gates[..., 0, :] * gates[..., 1, :] + gates[..., 2, :]


def loop(x: Tensor, w: Tensor) -> Tensor:
    out = x.new_zeros(x.shape)
    h = x.new_zeros(x.shape[1:])
    for t in range(len(x)):
        h = torch.tanh(x[t] + h @ w)
        out[t] = h
    return out


def in_place(x: Tensor, y: Tensor) -> Tensor:
    z = x.clone()
    z.mul_(y).add_(1).clamp_(min=0)
    z[:, 0] = y[:, 0]
    z[:, 1:].masked_fill_(y[:, 1:] > 0, 0.0)
    return z


def written_out(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    return torch.mul(x, y, out=out)


def heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=0.5)  # without it, the width itself is the scale


def instance_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=weight, bias=bias)


def original_width(norm: Callable[..., Tensor], width: int) -> Callable[..., Tensor]:
    """A norm over the last axis that goes on dividing by ``width``: what is cut out was zero."""

    def narrow(x: Tensor, *rest: Tensor) -> Tensor:
        wide = F.pad(x, (0, width - x.shape[-1]))
        return norm(wide, *(F.pad(r, (0, width - r.shape[-1])) for r in rest))[..., : x.shape[-1]]

    return narrow


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight)


def weight_normed(x: Tensor, v: Tensor, g: Tensor) -> Tensor:
    return torch._weight_norm(v, g, 0) @ x


def depthwise(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.conv1d(x, w, b, groups=x.shape[1])


def kth(x: Tensor) -> Tensor:
    """The largest of each feature over time, in the order in which they came."""
    return x.gather(0, x.topk(2, dim=0).indices.sort(dim=0).values)


SHAPES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "add broadcast": (torch.add, (A, C)),
    "where": (lambda x, y, z: torch.where(x > 0, y, z), (A, A, C)),
    "lerp": (torch.lerp, (A, A, A)),
    "addcmul": (torch.addcmul, (B, B, C)),
    "division": (torch.div, (B, B)),
    "log sigmoid": (F.logsigmoid, (A,)),
    "hardswish": (F.hardswish, (A,)),
    "gated linear unit": (F.glu, (A,)),
    "matmul": (torch.matmul, (A, (4, 5))),
    "linear": (F.linear, (A, (5, 4), (5,))),
    "baddbmm": (torch.baddbmm, ((2, 3, 5), A, (2, 4, 5))),
    "addmm": (torch.addmm, ((5,), B, (4, 5))),
    "einsum": (lambda x, w, y: torch.einsum("bth,hk,bsk->bts", x, w, y), (A, (4, 6), (2, 5, 6))),
    "einsum of one": (lambda x: torch.einsum("bth->hb", x), (A,)),
    "bilinear": (F.bilinear, (B, (3, 5), (2, 4, 5), (2,))),
    "outer": (torch.outer, ((3,), C)),
    "addr": (torch.addr, (B, (3,), C)),
    "kron": (torch.kron, ((3,), C)),
    "tensordot": (lambda x, y: torch.tensordot(x, y, dims=([2], [0])), (A, (4, 5))),
    "cdist": (torch.cdist, (A, (2, 5, 4))),
    "cosine similarity": (lambda x, y: F.cosine_similarity(x, y, dim=-1), (A, A)),
    "convolution": (F.conv1d, ((2, 3, 6), (5, 3, 2), (5,))),
    "convolution by ones": (F.conv1d, ((2, 3, 6), (5, 3, 1), (5,))),
    "convolution 2d": (F.conv2d, ((2, 3, 4, 5), (4, 3, 2, 1))),
    "convolution in groups": (lambda x, w, b: F.conv1d(x, w, b, groups=2), ((2, 6, 5), (8, 3, 2), (8,))),
    "convolution depthwise": (depthwise, ((2, 3, 6), (3, 1, 2), (3,))),
    "convolution depthwise by two": (depthwise, ((2, 3, 6), (6, 1, 2), (6,))),
    "convolution transposed": (F.conv_transpose1d, ((2, 3, 6), (3, 5, 2), (5,))),
    "convolution transposed in groups": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, groups=2), ((2, 6, 5), (6, 4, 2), (8,)),
    ),
    "convolution over time first": (torch.conv_tbc, ((5, 2, 3), (2, 3, 4), C)),
    "sum": (lambda x: x.sum(-1), (A,)),
    "norm": (lambda x: x.norm(dim=-1, keepdim=True), (A,)),
    "mean over time": (lambda x: x.mean(0), (A,)),
    "maximum over time": (lambda x: x.max(0), (A,)),
    "softmax over time": (lambda x: x.softmax(0), (A,)),
    "sorted over time": (lambda x: x.sort(0), (A,)),
    "running sum": (lambda x: x.cumsum(-1), (A,)),
    "running product over time": (lambda x: x.cumprod(0), (A,)),
    "running log": (lambda x: x.logcumsumexp(0), (A,)),
    "running maximum": (lambda x: x.cummax(0), (A,)),
    "best of features over time": (kth, ((5, 2, 4),)),
    "trapezoid": (lambda x: torch.trapezoid(x, dim=0), (A,)),
    "halves": (halves, (A,)),
    "halves by slices": (half_by_slices, (A,)),
    "gates viewed": (gates_viewed, ((2, 12),)),
    "bits of another size": (lambda x: x.view(torch.int16).to(x.dtype), (A,)),
    "bits of the same size": (lambda x: x.view(torch.int64 if x.dtype == torch.double else torch.int32) * 2, (A,)),
    "flattened": (lambda x: x.flatten(1), (A,)),
    "flattened and read": (lambda x, w: x.flatten(1) @ w, (A, (12, 2))),
    "flattened product": (lambda x, y, w: (x[:, :, None] * y[:, None]).flatten(1) @ w, ((2, 3), (2, 4), (12, 2))),
    "transposed": (lambda x: x.permute(2, 0, 1).transpose(0, 1).contiguous(), (A,)),
    "expanded": (lambda x, y: x.expand(len(y), -1) + y, ((1, 4), B)),
    "repeated": (lambda x: x.repeat(2, 1, 3), (A,)),
    "tiled": (lambda x: torch.tile(x, (2, 1)), (B,)),
    "repeated by number": (lambda x: x.repeat_interleave(2, 0), (B,)),
    "flip": (lambda x: x.flip(0, -1), (A,)),
    "rolled over time": (lambda x: x.roll(1, 0), (A,)),
    "rotated": (torch.rot90, (A,)),
    "joined": (lambda x, y: torch.cat([x, y], -1), (B, (3, 2))),
    "joined with zeros": (lambda x: torch.cat([x, x.new_zeros(len(x), 2)], -1), (B,)),
    "stacked": (lambda x, y: torch.stack([x, y]), (B, B)),
    "stacked and read": (lambda x, y, w: torch.stack([x, y], -1) @ w, (B, B, (2, 5))),
    "written step by step": (loop, (A, (4, 4))),
    "in place": (in_place, (B, B)),
    "into out": (written_out, (B, B)),
    "padded with zeros": (lambda x: F.pad(x, (0, 0, 1, 2)), (A,)),
    "padded by reflection": (lambda x: F.pad(x.transpose(0, 2), (1, 1), mode="reflect"), ((4, 3, 2),)),
    "padded by repetition": (lambda x: F.pad(x, (1, 1), mode="replicate"), (A,)),
    "pooled": (lambda x: F.max_pool1d(x, 2), (A,)),
    "pooled to a size": (lambda x: F.adaptive_avg_pool1d(x, 2), (A,)),
    "resized": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (A,)),
    "unfolded": (lambda x: x.unfold(0, 2, 1), ((5, 2, 3),)),
    "columns of an image": (lambda x: F.unfold(x, (2, 1)), ((2, 3, 4, 1),)),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), ((1, 8, 2, 3),)),
    "pixel unshuffle": (lambda x: F.pixel_unshuffle(x, 2), ((1, 3, 4, 2),)),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 2), ((1, 6, 2, 3),)),
    "sampled": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), ((2, 3, 4, 4), (2, 5, 3, 2))),
    "grid": (lambda theta: F.affine_grid(theta, [len(theta), 1, 3, 3], align_corners=False), ((2, 2, 3),)),
    "complex": (lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.polar(x, y)), (B, B)),
    "pairs as complex": (lambda x, y: torch.view_as_complex(x).imag * y, ((3, 4, 2), B)),
    "fourier over time": (lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1), (A,)),
    "diagonal": (lambda x: x.diagonal(), ((4, 4),)),
    "diagonal matrix": (lambda x, y: torch.diag_embed(x) @ y, (C, (4, 3))),
    "trace": (torch.trace, ((4, 4),)),
    "triangle": (torch.tril, ((4, 4),)),
    "inverse of many": (torch.linalg.inv, ((3, 4, 4),)),
    "cross product": (lambda x, y: torch.linalg.cross(x, y, dim=1), ((2, 3, 4), (2, 3, 4))),
    "attention": (heads, ((2, 3, 4), (2, 5, 4), (2, 5, 6))),
    "layer norm without weight": (lambda x: F.layer_norm(x, x.shape[-1:]), (A,)),
    "batch norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (A, (3,), (3,))),
    "batch norm in use": (lambda x, m, v: F.batch_norm(x, m, v.abs()), (A, (3,), (3,))),
    "instance norm": (instance_norm, ((2, 3, 5), (3,), (3,))),
    "weight norm": (weight_normed, (C, (3, 4), (3, 1))),
    "renorm": (lambda x: x.renorm(2, 0, 0.5), (A,)),
    "huber loss": (lambda x, y: F.huber_loss(x, y, reduction="none"), (B, B)),
}  # fmt: skip

INDEXED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "last step by gather": (
        lambda x, n: x.gather(0, n.view(1, -1, 1).expand(1, -1, x.size(2))), (numbers(*A), indices(2, 3)),
    ),
    "gather": (lambda x, i: x.gather(0, i), (numbers(5, 3, 4), indices(5, 2, 3, 4))),
    "last step by index": (lambda x, n: x[n, torch.arange(len(n))], (numbers(*A), indices(2, 3))),
    "order of the batch": (lambda x, i: x.index_select(1, i), (numbers(*A), indices(3, 3))),
    "masked": (lambda x, m: x.masked_fill(m, -1e9), (numbers(*A), indices(2, 2, 3, 1).bool())),
    "chosen by mask": (lambda x, m: x[m], (numbers(*B), indices(2, 3).bool())),
    "rows chosen by mask": (
        lambda x, m: x.masked_select(m.unsqueeze(-1)).view(-1, x.shape[-1]), (numbers(*B), indices(2, 3).bool()),
    ),
    "blocks chosen by mask": (
        lambda x, m: x.masked_select(m[:, None, None]), (numbers(*A), torch.tensor([True, False])),
    ),
    "scattered": (lambda x, i, y: x.scatter(1, i, y), (numbers(2, 5, 4), indices(5, 2, 3, 4), numbers(*A))),
    "scattered zero": (lambda x, i: x.scatter(1, i, 0.0), (numbers(2, 5, 4), indices(5, 2, 3, 4))),
    "scattered sums": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), (numbers(5, 4), indices(5, 3, 4), numbers(3, 4)),
    ),
    "rows added": (lambda x, i, y: x.index_add(0, i, y), (numbers(5, 4), indices(5, 3), numbers(3, 4))),
    "rows copied": (lambda x, i, y: x.index_copy(0, i, y), (numbers(5, 4), torch.tensor([0, 3, 4]), numbers(3, 4))),
    "rows filled": (lambda x, i: x.index_fill(0, i, 2.0), (numbers(5, 4), indices(5, 3))),
    "put": (lambda x, i, y: x.index_put((i,), y), (numbers(5, 4), torch.tensor([0, 3, 4]), numbers(3, 4))),
    "put one value": (lambda x, i, y: x.index_put((i,), y), (numbers(5, 4), torch.tensor([0, 3, 4]), numbers(4))),
    "embedding": (lambda w, i: F.embedding(i, w), (numbers(6, 4), indices(6, 2, 3))),
    "bags of embeddings": (lambda w, i: F.embedding_bag(i, w), (numbers(6, 4), indices(6, 2, 3))),
    "buckets": (torch.bucketize, (numbers(*B), torch.arange(5.0, dtype=torch.float64))),
    "searched": (torch.searchsorted, (numbers(2, 5).sort(-1).values, numbers(2, 3))),
    "taken along": (lambda x, i: torch.take_along_dim(x, i, 0), (numbers(5, 3, 4), indices(5, 2, 3, 4))),
}  # fmt: skip

NORMS = {
    "layer norm": (layer_norm, (numbers(*A), numbers(4), numbers(4)), original_width(layer_norm, 4)),
    "rms norm": (rms_norm, (numbers(*A), numbers(4)), original_width(rms_norm, 4)),
}

CASES = [
    *(Case(name, call, tuple(numbers(*s) for s in shapes)) for name, (call, shapes) in SHAPES.items()),
    *(Case(name, call, tensors) for name, (call, tensors) in INDEXED.items()),
    *(Case(name, call, tensors, narrow) for name, (call, tensors, narrow) in NORMS.items()),
]
