"""A tensor in slabs, each small enough to stay in cache while something is computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

__all__ = ["Slab", "products_of", "slabs_of"]

Slab = tuple[int, int, Tensor]
"""Rows of a tensor, from and up to, with numbers of its shape."""


def slabs_of(tensor: Tensor, dtype: torch.dtype, prepare: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Slab]:
    """What ``prepare(slab, out)`` makes of every slab of a tensor, in numbers of this type. ::

    slabs_of(weight, torch.float32, lambda slab, out: torch.mul(slab, slab, out=out))
    """
    for lo, hi, out in _scratch(tensor, dtype):
        block = tensor[lo:hi]
        # Narrow floats are widened before they are squared, not after; of a complex number the magnitude counts.
        real = torch.abs(block, out=out) if block.is_complex() else block if block.dtype == dtype else out.copy_(block)
        yield lo, hi, prepare(real, out)


def products_of(tensor: Tensor, grad: Tensor, dtype: torch.dtype) -> Iterator[Slab]:
    """Weight times gradient, a slab at a time: ``products_of(p, p.grad, torch.float32)``."""
    grad = grad if grad.layout == torch.strided else grad.to_dense()
    for lo, hi, out in _scratch(tensor, dtype):
        block, slope = tensor[lo:hi], grad[lo:hi]
        yield lo, hi, (block.conj() * slope).real if block.is_complex() else out.copy_(block).mul_(slope)


def _scratch(tensor: Tensor, dtype: torch.dtype) -> Iterator[Slab]:
    """Scratch for slabs along the first axis, small enough to stay in cache; one serves them all."""
    rows = max(1, _block_size(tensor.device) * tensor.shape[0] // max(1, tensor.numel()))
    scratch = tensor.new_empty((min(rows, tensor.shape[0]), *tensor.shape[1:]), dtype=dtype)
    for lo in range(0, tensor.shape[0], rows):
        hi = min(lo + rows, tensor.shape[0])
        yield lo, hi, scratch[: hi - lo]


def _block_size(device: torch.device) -> int:
    # A cache-sized slab per thread on the CPU (measured); elsewhere launches cost more than memory traffic.
    return 2**18 * torch.get_num_threads() if device.type == "cpu" else 2**24
