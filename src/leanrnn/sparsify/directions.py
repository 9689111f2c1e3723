"""Directions under a weight normalisation: their length is free, so it is fixed, or a penalty acts on nothing else."""

from __future__ import annotations

from collections.abc import Container, Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.weight_norm import WeightNorm

from leanrnn.groups.groups import Groups, Layer

__all__ = ["Directions"]


class Directions:
    """The direction tensors that have strips in the groups, looked up again when the groups were cut.

    Shrinking a direction as a whole changes nothing in what it stands for, so a penalty would do just that, down to
    where a threshold leaves no direction at all. At unit length a penalty can only choose between components. ::

        Directions(groups).unit_(set(model.parameters()))      # after every step
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._layers: tuple[Layer, ...] = ()
        self._named: list[tuple[str, int]] = []

    @torch.no_grad()
    def unit_(self, only: Container[Tensor]) -> None:
        """Bring the trainable directions in ``only`` to unit length."""
        if self._groups.layers is not self._layers:
            self._layers = self._groups.layers
            names = {strip.tensor for layer in self._layers for strip in layer.strips}
            self._named = [(name, dim) for name, dim in _directions(self._groups.model) if name in names]
        for name, dim in self._named:
            direction = self._groups.model.get_parameter(name)
            if direction.requires_grad and direction in only:
                others = [d for d in range(direction.dim()) if d != dim]
                length = torch.linalg.vector_norm(direction, dim=others, keepdim=True)
                direction.div_(length.clamp_min_(torch.finfo(direction.dtype).tiny))


def _directions(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Names of direction tensors, each with the axis that has a length of its own per position (-1: one for all)."""
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        # torch keeps the class to itself.
        if isinstance(module, ParametrizationList) and type(module[0]).__name__ == "_WeightNorm":
            yield f"{prefix}original1", int(getattr(module[0], "dim", 0))
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm):
                yield f"{prefix}{hook.name}_v", hook.dim
