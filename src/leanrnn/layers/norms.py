"""Norms that go on dividing by the width they had before a cut.

A component that was zero before its norm still counted in the mean and the variance. These norms count the missing
ones as the zeros they were, so cutting them out changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]


class LayerNorm(nn.LayerNorm):
    """nn.LayerNorm over components of which ``full_width - width`` were zero and are gone."""

    full_width: int

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        dims = tuple(range(-len(self.normalized_shape), 0))
        x = _wide(input)
        missing = self.full_width - math.prod(self.normalized_shape)
        mean = x.sum(dims, keepdim=True) / self.full_width
        centred = x - mean
        variance = (centred.square().sum(dims, keepdim=True) + missing * mean.square()) / self.full_width
        return _affine(centred * torch.rsqrt(variance + self.eps), self.weight, self.bias, input.dtype)


class RMSNorm(nn.RMSNorm):
    """nn.RMSNorm over components of which ``full_width - width`` were zero and are gone."""

    full_width: int

    def forward(self, x: Tensor) -> Tensor:
        """The normalised input."""
        dims = tuple(range(-len(self.normalized_shape), 0))
        wide = _wide(x)
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        power = wide.square().sum(dims, keepdim=True) / self.full_width
        return _affine(wide * torch.rsqrt(power + eps), self.weight, None, x.dtype)


class GroupNorm(nn.GroupNorm):
    """nn.GroupNorm whose groups have lost channels that were zero; a group that lost all of them is gone."""

    counts: Sequence[int]
    """Channels left in each group that is left."""
    full_count: int
    """Channels every group had at first."""

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        x = _wide(input)
        if len(set(self.counts)) == 1:
            blocks = x.reshape(x.size(0), len(self.counts), -1)
            done = self._normalised(blocks, self.counts[0]).reshape(x.shape)
        else:
            # Channels stay in order, so each group is still one stretch of them.
            runs = torch.split_with_sizes(x, list(self.counts), dim=1)
            pairs = zip(runs, self.counts, strict=True)
            done = torch.cat([self._normalised(r.flatten(1).unsqueeze(1), n).reshape(r.shape) for r, n in pairs], dim=1)
        column = (-1,) + (1,) * (x.dim() - 2)
        weight, bias = (None if p is None else p.reshape(column) for p in (self.weight, self.bias))
        return _affine(done, weight, bias, input.dtype)

    def _normalised(self, blocks: Tensor, count: int) -> Tensor:
        """Each (sample, group) row brought to mean 0 and variance 1, missing channels counted as zeros."""
        points = blocks.size(-1) // count
        full, missing = self.full_count * points, (self.full_count - count) * points
        mean = blocks.sum(-1, keepdim=True) / full
        centred = blocks - mean
        variance = (centred.square().sum(-1, keepdim=True) + missing * mean.square()) / full
        return centred * torch.rsqrt(variance + self.eps)


def _wide(x: Tensor) -> Tensor:
    """At least float32 for the sums, as torch's own norms do."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    x = x if weight is None else x * weight
    return (x if bias is None else x + bias).to(dtype)
