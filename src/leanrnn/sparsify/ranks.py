"""Several processes that train one model: all of them have to cut the same components."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
import torch.distributed as dist

from leanrnn.errors import GroupsError, RanksError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
else:
    ProcessGroup: TypeAlias = Any  # there are builds of torch without it

__all__ = ["ProcessGroup", "check_every", "check_ranks_agree", "refuse_replicas"]


def several(ranks: ProcessGroup | None) -> bool:
    """Whether more than one process trains this model."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size(ranks) > 1


def refuse_replicas(call: str, ranks: ProcessGroup | None = None) -> None:
    """Where several processes train one model, refuse to cut in a step that nobody is told of."""
    if several(ranks):
        raise GroupsError(
            "compaction by itself would leave DistributedDataParallel with the old parameters. "
            f"Give {call} a function that wraps the model again."
        )


def check_every(every: int, told: bool, ranks: ProcessGroup | None = None) -> None:
    """Refuse a number of steps that makes no sense, or compaction by itself that nobody is told of."""
    if every < 0:
        raise GroupsError(f"compact(every={every}) is not possible. Give a number of steps, or 0 to stop.")
    if every and not told:
        refuse_replicas("compact(every=..., after=...)", ranks)


def check_ranks_agree(masks: Masks, groups: Groups, ranks: ProcessGroup | None = None) -> None:
    """Compare what every process is about to keep: :class:`~leanrnn.errors.RanksError` names layer and ranks. ::

    check_ranks_agree(masks, groups)  # a few numbers to and fro; nothing with one process
    """
    if not several(ranks) or not masks:
        return
    device = next(iter(groups.tensors().values())).device
    mine = torch.tensor([[_fingerprint(mask), int(mask.sum())] for mask in masks.values()], device=device)
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(ranks))]
    dist.all_gather(found, mine, group=ranks)
    said = [each.tolist() for each in found]  # compactions may wait for the device
    for place, name in enumerate(masks):
        kept = [each[place] for each in said]
        if others := [rank for rank, each in enumerate(kept) if each != kept[0]]:
            raise RanksError(_told(name, [count for _, count in kept], others))


def _fingerprint(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """A number of 63 bits that tells one choice of components from another."""
    digest = hashlib.sha256(len(mask).to_bytes(8, "little") + np.packbits(mask).tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _told(layer: str, counts: Sequence[int], others: Sequence[int]) -> str:
    many = f"rank{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
    different = sorted({counts[rank] for rank in others})
    keep = f"{' or '.join(map(str, different))} components" if different != [counts[0]] else "other components"
    return (
        f"the processes do not remove the same components: of layer {layer!r} rank 0 would keep {counts[0]}, "
        f"and {many} {keep}. Their weights have come apart. Give every rank the same first weights, let "
        "DistributedDataParallel average every gradient, wrap the model again after every cut, and compact on "
        "all ranks after the same step."
    )
