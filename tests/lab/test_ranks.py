"""Recipes in several processes: what one would train, bit-identical replicas, a stop that leaves no trace."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from leanrnn.errors import ConfigError, RanksError
from leanrnn.lab.checkpoints import latest
from leanrnn.lab.disk import digest
from leanrnn.lab.language.loop import train
from leanrnn.lab.ranks import ALONE, Ranks, joined
from leanrnn.lab.runs import Run
from tests.support.tiny import BUDGET, SPARSE, settings, tiny_text

needs_gloo = pytest.mark.skipif(not dist.is_gloo_available() or sys.platform == "win32", reason="needs gloo")
CONFIG = replace(BUDGET, batch=15, keep=1.0, drop_recurrent=0.0, average=0.9)
"""15 streams are uneven shares of two processes."""
DROPPED = replace(SPARSE, batch=15, epochs=2, mode="loss", average=0.9)


def go(folder: Path, config, ranks: Ranks, stop_at: int = -1) -> None:
    """Train to the end, or until flags were compared so many times."""
    asked = [0]

    def stopped() -> bool:
        asked[0] += 1
        return asked[0] == stop_at

    with Run.open(folder, settings(config), ranks=ranks) as run:
        list(train(config, tiny_text(), run, stopped=stopped, ranks=ranks))
        ranks.wait()


def work(rank: int, store: str, folder: Path) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    ranks = Ranks(rank, 2)
    go(folder / "two", CONFIG, ranks)
    go(folder / "whole", DROPPED, ranks)
    go(folder / "parts", DROPPED, ranks, stop_at=1)
    if ranks.first:
        assert not (folder / "parts" / "result.json").exists()
        shutil.copytree(folder / "parts", folder / "fewer")
    ranks.wait()
    go(folder / "parts", DROPPED, ranks)
    assert digest(folder / "parts" / "model.safetensors") == digest(folder / "whole" / "model.safetensors")
    with pytest.raises(ConfigError, match="2 processes cannot share 1 streams"):
        go(folder / "few", replace(CONFIG, batch=1), ranks)
    # A folder that only the first process sees.
    with Run.open(folder / ("two" if ranks.first else "elsewhere"), settings(CONFIG), ranks=ranks) as run:
        with pytest.raises(RanksError, match=r"process 1 does not see the checkpoints .* that all machines share"):
            latest(run, ranks)
    dist.barrier()
    os._exit(0)  # gloo's threads may still be about


@needs_gloo
@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path):
    mp.spawn(work, args=(str(tmp_path / "store"), tmp_path), nprocs=2)
    with Run.open(tmp_path / "one", settings(CONFIG)) as run:
        list(train(CONFIG, tiny_text(), run))
        alone = run.result()
    with Run.open(tmp_path / "two", settings(CONFIG)) as run:
        together = run.result()
    assert together["widths"] == alone["widths"] != [16, 14]
    assert together["valid_by_epoch"] == pytest.approx(alone["valid_by_epoch"], rel=1e-4)
    with Run.open(tmp_path / "fewer", settings(DROPPED)) as run:  # begun by two, ended by one
        list(train(DROPPED, tiny_text(), run))
        assert "number of processes has changed" in run.notes[0] and run.result()


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 7, 20])
def test_shares_are_all_there_is(count, world):
    whole = torch.arange(2 * count).view(2, count)
    parts = [Ranks(rank, world).share(whole, 1) for rank in range(world)]
    assert torch.equal(torch.cat(parts, 1), whole)
    assert max(p.size(1) for p in parts) - min(p.size(1) for p in parts) <= 1


def test_one_process_is_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined("cpu") as (ranks, device):
        assert ranks == ALONE and device == "cpu" and ranks.any(True, False) == [True, False]
        assert ranks.from_first(1, lambda: [2.5]) == [2.5] and ranks.seed(7) == 7


def test_devices_that_several_cannot_share(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"'mps' together\. Give --device cpu"):
        with joined("mps"):
            pass
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ConfigError, match="process 0 of this machine has no GPU"):
        with joined("cuda"):
            pass
