"""Where in C the numbers of tensors are: in memory of the step, in the state, in what the caller gave, in constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leanrnn.deploy.formats.c.code import Code, loop, number
from leanrnn.errors import ExportError

__all__ = ["Memory", "storage"]


class Memory:
    """Tensors that hold nothing of interest but their storage, offset and strides, and what they are in C."""

    def __init__(self) -> None:
        self.code = Code()
        self.places: dict[int, str] = {}
        """Names of the memory in which computed numbers are, by their storage."""
        self.ahead: dict[int, int] = {}
        """How many frames at the end of such memory are none yet."""
        self.constants: dict[Any, str] = {}
        self.kept: list[Any] = []
        """Tensors, so that a storage means one thing."""

    def computed(self, value: Any) -> bool:
        """Whether a value is known in a run only."""
        return isinstance(value, Tensor) and storage(value) in self.places

    def read(self, tensor: Tensor, hint: str) -> str:
        """Where the numbers of a tensor are, one after the other."""
        if not self.computed(tensor):
            return self.constant(tensor.contiguous(), hint)
        if not tensor.is_contiguous():
            copy = tensor.contiguous()
            self.kept.append(copy)
            self.write(copy, hint)
            self.each(copy, "{}", tensor)
            tensor = copy
        place, offset = self.places[storage(tensor)], tensor.storage_offset()
        return f"{place} + {offset}" if offset else place

    def constant(self, tensor: Tensor, hint: str) -> str:
        """An array of weights, once for all who read it."""
        key = storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()
        if key not in self.constants:
            self.kept.append(tensor)
            self.constants[key] = self.code.array(tensor, hint)
        return self.constants[key]

    def write(self, tensor: Tensor, hint: str, place: str = "") -> str:
        """Memory for what is computed now."""
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        if tensor.dtype != torch.float32:
            raise ExportError(f"{hint} gives numbers of {tensor.dtype}, and a file of C computes in float32.")
        if not tensor.numel():
            raise ExportError(
                f"{hint} has nothing to compute in a step: it reads several. Keep what it needs as a state."
            )
        known = self.places.get(storage(tensor), "")
        if known in self.code.buffers and not place:  # what is changed in place
            return known
        if known and tensor.numel() != size:
            raise ExportError(f"{hint} changes a part of an input or of a state. Change a clone of it.")
        self.places[storage(tensor)] = place or self.code.buffer(size, hint)
        return self.places[storage(tensor)]

    def bind(self, tensor: Tensor, place: str) -> None:
        """Say where the numbers of a tensor are."""
        self.places[storage(tensor)] = place

    def each(self, result: Tensor, formula: str, *operands: Tensor | float) -> None:
        """``result = formula`` for every number; a {} is an operand."""
        tensors, texts = [result], []
        for operand in operands:
            if isinstance(operand, Tensor) and (self.computed(operand) or operand.numel() > 1):
                wide = operand if self.computed(operand) else operand.contiguous()
                place = self.places[storage(wide)] if self.computed(wide) else self.constant(wide, "constant")
                texts.append((place, len(tensors)))
                tensors.append(wide.expand(result.shape))
            else:
                texts.append((number(float(operand)), 0))
        heads, indices = loop(result.shape, [t.stride() for t in tensors])

        def at(place: str, i: int) -> str:
            offset = tensors[i].storage_offset() if self.computed(tensors[i]) else 0
            return f"{place}[{f'{offset} + ' if offset else ''}{indices[i]}]"

        target = at(self.places[storage(result)], 0)
        formula = formula.format(*(at(place, i) if i else place for place, i in texts))
        self.code.use(formula)
        self.code.add(*heads, f"{'    ' * len(heads)}{target} = {formula};")


def storage(tensor: Tensor) -> int:
    """What tells the memory of a tensor from that of others."""
    return tensor.untyped_storage().data_ptr()
