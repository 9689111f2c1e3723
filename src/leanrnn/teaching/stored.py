"""What a teacher says about a fixed sequence of batches, asked once and kept in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from leanrnn.errors import DataError
from leanrnn.surgery.checkpoint import write_tensors
from leanrnn.teaching.soft_targets import SoftTargets

__all__ = ["StoredTargets", "record_targets"]

KEY = "leanrnn soft targets"


def record_targets(
    path: str | os.PathLike[str], scores: Iterable[Tensor], *, top: int = 20, temperature: float = 1.0
) -> StoredTargets:
    """Write the ``top`` classes of every position of every batch; ``scores`` are asked for one after the other. ::

        batches = [x for x, y in loader]  # a loader without shuffling
        stored = leanrnn.record_targets("taught.safetensors", (teacher(x) for x in batches))

    Worth it where the same batches come back every epoch: the teacher runs once. A position takes six bytes a class.
    """
    tensors: dict[str, Tensor] = {}
    count = 0
    for count, batch in enumerate(scores, 1):
        soft = SoftTargets.of(batch, top, temperature)
        tensors[f"classes.{count - 1}"] = soft.classes.int().cpu()
        tensors[f"logs.{count - 1}"] = soft.logs.half().cpu()
    if not count:
        raise DataError("there are no scores to record. Give one tensor of scores for every batch.")
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    try:
        write_tensors(tensors, Path(name), {KEY: str(temperature), "batches": str(count)})
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return StoredTargets(target)


class StoredTargets:
    """What :func:`record_targets` wrote, read a batch at a time. ::

    stored = leanrnn.StoredTargets("taught.safetensors")
    for soft, (x, y) in zip(stored, loader, strict=True):
        scores = model(x)
        loss = leanrnn.distil(scores, soft, cross_entropy(scores, y))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            with safe_open(self.path, framework="pt") as file:
                said = file.metadata() or {}
        except FileNotFoundError:
            raise DataError(f"there is no file {self.path}. Write it with leanrnn.record_targets.") from None
        except (SafetensorError, OSError) as error:
            raise DataError(f"{self.path} cannot be read ({error}). Record it again.") from error
        if KEY not in said:
            raise DataError(f"{self.path} has no soft targets in it. Write them with leanrnn.record_targets.")
        self.temperature, self._length = float(said[KEY]), int(said["batches"])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> SoftTargets:
        """Of the batch with this number; only that part of the file is read."""
        if not 0 <= index < self._length:
            raise IndexError(f"{self.path} has {self._length} batches, counted from 0, and none with number {index}.")
        with safe_open(self.path, framework="pt") as file:
            classes, logs = file.get_tensor(f"classes.{index}"), file.get_tensor(f"logs.{index}")
        return SoftTargets(classes, logs.to(torch.get_default_dtype()), self.temperature)
