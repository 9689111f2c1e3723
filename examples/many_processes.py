"""A training loop of one's own in several processes, which cuts on the way and starts again when one of them dies::

    torchrun --nproc-per-node 2 --max-restarts 3 examples/many_processes.py FOLDER

Two batches make a step (gradient accumulation). What an epoch has left over is dropped, so that every process takes
every step: after a step in which components go, all of them wrap the model again.
"""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import leanrnn

EPOCHS, BATCH, TOGETHER = 8, 8, 2  # batches of each process, and how many of them make a step


class Detector(nn.Module):
    """Whether the first of four numbers, over time, is above zero on the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 24, num_layers=2)
        self.head = nn.Linear(24, 1)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(sound.transpose(0, 1))[0][-1]).squeeze(-1)


def sounds() -> TensorDataset:
    """203 of them, which are shared out evenly, but for what is left over."""
    sound = torch.randn(203, 12, 4, generator=torch.Generator().manual_seed(1))
    return TensorDataset(sound, (sound[..., 0].sum(1) > 0).float())


def train(folder: Path) -> None:
    """Train, or go on from the last checkpoint in ``folder``."""
    checkpoint, data = folder / "checkpoint.pt", sounds()
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, BATCH, sampler=sampler, drop_last=True)

    torch.manual_seed(0)
    model = Detector()
    groups = leanrnn.discover(model, data[:2][0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    budget, steps = leanrnn.Budget(mult_adds="25%"), EPOCHS * (len(loader) // TOGETHER)
    replica = model

    def wrap(_: object = None) -> None:
        nonlocal replica
        replica = DistributedDataParallel(model)

    sparsifier = leanrnn.Sparsifier(groups, budget=budget, steps=steps).attach(optimizer, after=wrap)
    leanrnn.resumable(model, groups)
    begin = 0
    if checkpoint.exists():  # every process reads it
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        sparsifier.load_state_dict(saved["sparsifier"])
        begin = saved["epoch"]
    wrap()

    for epoch in range(begin, EPOCHS):
        sampler.set_epoch(epoch)
        for i, (sound, loud) in enumerate(loader):
            complete = (i + 1) % TOGETHER == 0
            with nullcontext() if complete else replica.no_sync():
                loss = nn.functional.binary_cross_entropy_with_logits(replica(sound), loud)
                (loss / TOGETHER).backward()
            if complete:
                optimizer.step()
                optimizer.zero_grad()
        optimizer.zero_grad()  # a batch that is left over
        if dist.get_rank() == 0:
            states = {"model": model, "optimizer": optimizer, "sparsifier": sparsifier}
            torch.save({k: v.state_dict() for k, v in states.items()} | {"epoch": epoch + 1}, folder / "part.pt")
            (folder / "part.pt").replace(checkpoint)  # whole or not at all
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, widths {groups.widths}", flush=True)
        dist.barrier()
    sparsifier.detach()
    if dist.get_rank() == 0:
        leanrnn.save(leanrnn.shrink(model, groups), folder / "detector.safetensors")


if __name__ == "__main__":
    store, rank, world = next(dist.rendezvous("env://"))
    # Names of their own for every restart: torchrun keeps the store, with addresses of processes that are dead.
    store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    dist.init_process_group(store=store, rank=rank, world_size=world)  # NCCL where there are GPUs, gloo elsewhere
    train(Path(sys.argv[1]))
    dist.destroy_process_group()
