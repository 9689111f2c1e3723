"""Accelerate: trackers, and two processes under DDP that are killed and gone on with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch import nn

import leanrnn
from leanrnn.integrations.accelerate import attach

pytestmark = pytest.mark.filterwarnings("ignore:`broadcast_buffers`", "ignore::DeprecationWarning")
EXAMPLE = torch.zeros(2, 6, 4)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Training:
    """As much of a loop as there has to be."""

    def __init__(self, **options):
        torch.manual_seed(0)
        self.accelerator = Accelerator(cpu=True)
        model = Tagger()
        x = torch.randn(160, 6, 4)
        data = torch.utils.data.DataLoader(list(zip(x, x.cumsum(1)[..., :3], strict=True)), batch_size=4)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.model, self.optimizer, self.data = self.accelerator.prepare(model, optimizer, data)
        options = options or {"budget": leanrnn.Budget(mult_adds="40%")}
        self.lean = attach(self.accelerator, self.model, self.optimizer, EXAMPLE, steps=2 * len(self.data), **options)

    def epoch(self):
        for x, y in self.data:
            self.accelerator.backward(nn.functional.mse_loss(self.model(x), y))
            self.optimizer.step()
            self.optimizer.zero_grad()

    def state(self):
        return {name: tensor.clone() for name, tensor in self.accelerator.unwrap_model(self.model).state_dict().items()}


def test_trackers_are_told(monkeypatch):
    training = Training()
    told = []
    monkeypatch.setattr(training.accelerator, "log", lambda values, step: told.append((step, values)))
    training.epoch()
    training.epoch()
    training.lean.end()
    assert told[0][1]["leanrnn/lstm.l0/width"] == 16 and told[-1][1]["leanrnn/used/mult_adds"] <= 1
    assert training.lean.sparsifier.optimizers == []


def test_two_processes_stay_alike_and_go_on_to_the_same_bits(tmp_path):
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", __spec__.name]
    for what in ("whole", "first", "second"):
        subprocess.run([sys.executable, *command, tmp_path, what], env=environment, check=True)
    whole, again, other = (
        torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("whole0", "second0", "second1")
    )
    assert whole["lstm.weight_hh_l0"].shape[1] < 16
    assert all(torch.equal(whole[name], again[name]) and torch.equal(again[name], other[name]) for name in whole)


if __name__ == "__main__":
    folder, what = sys.argv[1:]
    training = Training()
    if what != "second":
        training.epoch()
        training.accelerator.save_state(str(Path(folder, f"state-{what}")))
    if what == "second":
        training.accelerator.load_state(str(Path(folder, "state-first")))
    if what != "first":
        training.epoch()
        rank = training.accelerator.process_index
        torch.save(training.state(), Path(folder, f"{what}{rank}.pt"))
