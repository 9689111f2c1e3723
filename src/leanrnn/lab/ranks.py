"""The processes that train one recipe together: who they are, what each of them reads, what they tell each other.

``torchrun`` starts them and says their numbers. Every one has a replica of the model and its share of every batch; the
gradients are averaged by DistributedDataParallel. The first one writes the run folder, judges the model and prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from leanrnn.errors import ConfigError, RanksError

__all__ = ["ALONE", "Ranks", "joined"]

T = TypeVar("T")
LOST = ("Connection closed by peer", "Connection reset", "Broken pipe", "NCCL", "timed out", "Timed out", "gloo")
"""Of the messages of torch when another process is no longer there."""


@dataclass(frozen=True)
class Ranks:
    """This process among all of them. One that trains alone tells nobody anything, and has all of every batch. ::

    rows = ranks.share(streams(text.train, config.batch), dim=1)
    """

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether it is the one that writes and prints."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """A seed of this process, so that each has dropout of its own."""
        return seed + (self.rank << 40)

    def wrapped(self, model: nn.Module) -> nn.Module:
        """The model with gradients that are averaged over all processes."""
        return model if self.world == 1 else DistributedDataParallel(model, forward_sync_buffers=False)

    def bounds(self, count: int) -> tuple[int, int]:
        """Which of ``count`` things are this process's: shares differ by one at most."""
        return count * self.rank // self.world, count * (self.rank + 1) // self.world

    def share(self, whole: Tensor, dim: int) -> Tensor:
        """This process's part of a tensor that every process has."""
        begin, end = self.bounds(whole.size(dim))
        return whole.narrow(dim, begin, end - begin).contiguous()

    def gathered(self, part: Tensor, dim: int) -> Tensor:
        """The whole of which :meth:`share` made ``part``, on every process."""
        if self.world == 1:
            return part
        sizes = [int(each) for each in self.each(torch.tensor(part.size(dim)))]
        missing = list(part.shape)
        missing[dim] = max(sizes) - part.size(dim)
        parts = self.each(torch.cat((part, part.new_zeros(missing)), dim).contiguous())
        return torch.cat([each.narrow(dim, 0, size) for each, size in zip(parts, sizes, strict=True)], dim)

    def each(self, mine: Tensor) -> list[Tensor]:
        """The tensor that every process gives, in their order; all have one shape."""
        if self.world == 1:
            return [mine]
        found = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(found, mine)
        return found

    def total(self, part: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            part = part.clone()
            dist.all_reduce(part)
        return part

    def asks(self, step: int) -> bool:
        """Whether it is time to compare flags after so many steps: several processes do it after every tenth."""
        return self.world == 1 or step % 10 == 0

    def any(self, *flags: bool) -> list[bool]:
        """Every flag that is up on some process; all of them go on with the same answer."""
        if self.world == 1:
            return list(flags)
        up = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(up, dist.ReduceOp.MAX)
        return [bool(flag) for flag in up.tolist()]

    def from_first(self, count: int, made: Callable[[], Sequence[float]]) -> list[float]:
        """So many numbers, which the first process computes and the others are told."""
        numbers = torch.tensor(made() if self.first else [0.0] * count, dtype=torch.float64)
        if self.world > 1:
            dist.broadcast(numbers, src=0)
        found: list[float] = numbers.tolist()
        return found

    def in_turn(self, done: Callable[[], T]) -> T:
        """Done by the first process, and by the others once it is through."""
        if self.first:
            found = done()
            self.wait()
            return found
        self.wait()
        return done()

    def wait(self) -> None:
        """Until all processes are here."""
        self.any(False)


ALONE = Ranks()
"""One process."""


@contextmanager
def joined(device: str) -> Iterator[tuple[Ranks, str]]:
    """Join the processes that torchrun has started; also the device of this one. Without torchrun, there is one. ::

    with joined("cuda") as (ranks, device):
        model.to(device)
    """
    world, rank, local = (int(os.environ.get(name, default)) for name, default in (
        ("WORLD_SIZE", "1"), ("RANK", "0"), ("LOCAL_RANK", "0")
    ))  # fmt: skip
    if world == 1:
        yield ALONE, device
        return
    if device == "cuda":
        if local >= torch.cuda.device_count():
            raise ConfigError(
                f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}. Give torchrun a "
                "smaller --nproc-per-node, or train with --device cpu."
            )
        torch.cuda.set_device(local)
        device = f"cuda:{local}"
    elif device != "cpu":
        raise ConfigError(f"several processes cannot train on {device!r} together. Give --device cpu.")
    with _told_of_the_lost():
        store, *_ = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
        # Names of their own for every restart: torchrun keeps the store, with addresses of processes that are dead.
        store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)  # type: ignore[attr-defined]
        backend = "cpu:gloo,cuda:nccl" if device != "cpu" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=world)
        try:
            yield Ranks(rank, world), device
        finally:
            dist.destroy_process_group()


@contextmanager
def _told_of_the_lost() -> Iterator[None]:
    """What torch says when another process is gone, in plain words."""
    try:
        yield
    except RuntimeError as error:
        if not any(text in str(error) for text in LOST):
            raise
        raise RanksError(
            "another process of this training has ended, so this one ends too; its own message says why. With "
            "torchrun --max-restarts 3 all of them start again by themselves, from the last checkpoint."
        ) from error
