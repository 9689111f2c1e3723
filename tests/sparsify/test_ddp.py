"""Two real processes: replicas stay bit-identical through penalty, thresholds and compaction."""

import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from leanrnn import Budget, Course, discover, shrink
from leanrnn.errors import GroupsError, RanksError, UnsupportedModelError
from leanrnn.integrations.replicas import wrap_again_
from leanrnn.sparsify.sparsifier import Sparsifier
from leanrnn.sparsify.thresholds import ElementThreshold, GroupThreshold
from tests.support.handmade import kill_, language
from tests.support.training import OPTIMIZERS, batches

pytestmark = pytest.mark.skipif(not dist.is_gloo_available() or sys.platform == "win32", reason="needs gloo")


class Replica:
    """One process's share of the run; every process sees other data."""

    def __init__(self, rank: int, make: str, mode: str) -> None:
        self.model, groups = language()
        self.rank, self.replica = rank, DistributedDataParallel(self.model)
        self.optimizer = OPTIMIZERS[make](self.model.parameters())
        thresholds = [ElementThreshold(1e-3, biases=True), GroupThreshold(0.5)]
        self.sparsifier = Sparsifier(groups, strength=1e-3, threshold=thresholds, mode=mode).attach(self.optimizer)

    def wrap(self, _: object = None) -> None:
        self.replica = DistributedDataParallel(self.model)

    def train(self, steps: int) -> None:
        for tokens in batches(steps, seed=100 + self.rank):
            self.optimizer.zero_grad()
            logits, _ = self.replica(tokens)
            nn.functional.cross_entropy(logits[:-1].flatten(0, 1), tokens[1:].flatten()).backward()
            self.optimizer.step()
            self.check()

    def check(self) -> None:
        """Every parameter equals that of process 0, bit for bit."""
        for name, p in self.model.named_parameters():
            first = p.detach().clone()
            dist.broadcast(first, src=0)
            assert torch.equal(first, p), name


def join(rank: int, file: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)


def work(rank: int, file: str, make: str, mode: str) -> None:
    join(rank, file)
    run = Replica(rank, make, mode)
    groups = run.sparsifier.groups
    # Groups this small grow a little in every step and are cut off by the group threshold again.
    kill_(groups, {"rnn.l1": [1, 2]})
    run.train(4)
    assert run.sparsifier.compact()
    run.wrap()
    assert groups.widths == {"rnn.l0": 6, "rnn.l1": 4}
    run.train(4)
    with pytest.raises(GroupsError, match="after"):
        run.sparsifier.compact(every=2)
    # In place, as frameworks need it that hold the replica themselves.
    run.sparsifier.compact(every=2, after=lambda _: wrap_again_(run.replica))
    kill_(groups, {"rnn.l0": [0], "rnn.l1": [3]})
    held = run.replica
    run.train(6)
    assert run.replica is held
    assert groups.widths == {"rnn.l0": 5, "rnn.l1": 3}
    come_apart(run)
    spread_over_processes()
    dist.barrier()
    # Gloo's threads may still be about when C++ tears the process down, which aborts it now and then.
    os._exit(0)


def come_apart(run: Replica) -> None:
    """Something has changed the weights of one process: it is told by all, before anything is cut."""
    widths = run.sparsifier.groups.widths
    kill_(run.sparsifier.groups, {"rnn.l1": [run.rank]})
    with pytest.raises(RanksError, match=r"layer 'rnn.l1' rank 0 would keep 2, and rank 1 other components"):
        run.sparsifier.compact()
    if run.rank == 1:
        kill_(run.sparsifier.groups, {"rnn.l1": [0]})
    with pytest.raises(RanksError, match=r"layer 'rnn.l1' rank 0 would keep 2, and rank 1 1 components"):
        run.sparsifier.compact()
    assert run.sparsifier.groups.widths == widths


def spread_over_processes() -> None:
    """A model that no process has as a whole is refused before it trains."""
    model, groups = language()
    fully_shard(model)
    with pytest.raises(UnsupportedModelError, match=r"DTensor.*Train it with DistributedDataParallel, shrink it, and"):
        Sparsifier(groups, strength=1e-3).attach(torch.optim.SGD(model.parameters(), 0.1))
    for refused in (lambda: shrink(model, groups), lambda: discover(model, batches(1)[0])):
        with pytest.raises(UnsupportedModelError, match="fully_shard on the small model"):
            refused()


def work_to_a_budget(rank: int, file: str) -> None:
    join(rank, file)
    model, _ = language(width=12)
    run = object.__new__(Replica)
    run.model, run.rank, run.optimizer = model, rank, OPTIMIZERS["adam"](model.parameters())
    groups = discover(model, batches(1)[0])
    run.sparsifier = Sparsifier(groups, budget=Budget(mult_adds="50%"), steps=20, course=Course(rounds=3))
    with pytest.raises(GroupsError, match="after"):
        run.sparsifier.attach(run.optimizer)
    run.sparsifier.attach(run.optimizer, after=run.wrap)
    run.wrap()
    limit = 0.5 * groups.costs.mult_adds.at(groups.widths)
    run.train(20)
    assert groups.costs.mult_adds.at(groups.widths) <= limit
    dist.barrier()
    os._exit(0)


@pytest.mark.slow
def test_replicas_choose_the_same_components_for_a_budget(tmp_path: Path):
    mp.spawn(work_to_a_budget, args=(str(tmp_path / "store"),), nprocs=2)


@pytest.mark.slow
@pytest.mark.parametrize("make, mode", [("momentum", "gradient"), ("adam", "proximal")])
def test_replicas_stay_bit_identical(tmp_path: Path, make: str, mode: str):
    mp.spawn(work, args=(str(tmp_path / "store"), make, mode), nprocs=2)
