"""What the readers of components are multiplied by in real inputs, and how much the result feels of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leanrnn.discovery.recorder import opaque_kernels_off
from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.refitting.products import Products, Reading
from leanrnn.running.call import call, leaves
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.refused import refused

__all__ = ["Read", "read"]


@dataclass
class Read:
    """A weight that reads components: along which axis, what, and how much the result feels of each of its rows."""

    axis: int
    reading: Reading
    felt: Tensor


Output = Callable[[nn.Module, Any], Any]


def read(model: nn.Module, groups: Groups, batches: Iterable[Any], output: Output | None = None) -> dict[str, Read]:
    """By name, the matrices that read components, as far as they are seen at work. ::

    read(model, groups, batches)["rnn.weight_hh_l0"].felt

    ``output`` gives what is felt, of the model and a batch; without it that is the first tensor of the result.
    """
    axes = _axes(groups)
    if not axes:
        return {}
    products = Products(model, axes)
    weights = {name: groups.tensors()[name] for name in axes}
    felt = {name: torch.zeros(w.shape[1 - axes[name]], dtype=torch.float64) for name, w in weights.items()}
    count = 0
    for count, batch in enumerate(batches, start=1):
        slopes = _slopes(model, batch, output or call, products, list(weights.values()), count)
        for name, slope in zip(axes, slopes, strict=True):
            felt[name] += slope.to("cpu", torch.float64).square().sum(axes[name])
    if not count:
        raise GroupsError("there are no batches to fit to. Give some dozens of inputs, as the model is used on.")
    found = {}
    for name, reading in products.readings.items():
        if reading.moments[-1, -1] > 0:
            reading.moments /= reading.moments[-1, -1].clone()
            # The gradient of a row is what the result feels of its product, times what was read.
            scale = reading.moments.diagonal()[:-1].sum().clamp_min(torch.finfo(torch.float64).tiny)
            found[name] = Read(axes[name], reading, felt[name] / count / scale)
    return found


def _axes(groups: Groups) -> dict[str, int]:
    """The matrices that read components, with the axis along which they do; one that does along both is none."""
    real = {name for name, tensor in groups.tensors().items() if tensor.is_floating_point()}
    found: dict[str, set[int]] = {}
    for layer in groups:
        for strip in layer.strips:
            if strip.reader and strip.role == "weight" and len(strip.shape) == 2 and strip.tensor in real:
                found.setdefault(strip.tensor, set()).add(strip.axis)
    return {name: next(iter(axes)) for name, axes in found.items() if len(axes) == 1}


def _slopes(
    model: nn.Module, batch: Any, output: Output, products: Products, weights: list[Tensor], seed: int
) -> list[Tensor]:
    """The derivatives by the weights of the result in a random direction; what is multiplied is watched on the way."""
    try:
        with quiet(model), opaque_kernels_off(), torch.enable_grad():
            with products:
                result = leaves(output(model, copy_example(batch)))
            products.finish()
            felt = next((t for t in result if t.requires_grad), None)
            if felt is None:
                raise GroupsError(
                    "the result of the model has no gradient. Give a model whose forward lets it through."
                )
            direction = torch.randn(felt.shape, generator=torch.Generator().manual_seed(seed))
            slopes = torch.autograd.grad((felt * direction.to(felt)).sum(), weights, allow_unused=True)
    except GroupsError:
        raise
    except Exception as error:
        raise GroupsError(refused(model, batch, error)) from error
    return [torch.zeros_like(w) if s is None else s for w, s in zip(weights, slopes, strict=True)]
