"""Lightning's own loop: DDP, averages, loggers, progress bar, the best model, checkpoints of other widths."""

import os
import subprocess
import sys
from pathlib import Path

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, EMAWeightAveraging, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from torch import nn

import leanrnn
from leanrnn.errors import CheckpointError, LeanRNNWarning
from leanrnn.integrations.lightning import LeanCallback

# Lightning 2.6 itself is warned of by torch 2.13.
pytestmark = pytest.mark.filterwarnings(
    "ignore:::lightning", "ignore:`isinstance", "ignore:`broadcast_buffers`", "ignore:You defined"
)
EXAMPLE = torch.zeros(2, 6, 4)


class Net(nn.Module):
    """An ordinary module."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Tagger(lightning.LightningModule):
    """A model with a loss, and a validation that gets worse with every epoch."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)

    def validation_step(self, batch):
        self.log("worse", torch.tensor(float(self.current_epoch)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def loader():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(80, 6, 4, generator=generator)
    return torch.utils.data.DataLoader(list(zip(x, x.cumsum(1)[..., :3], strict=True)), batch_size=8)


def fit(folder, *callbacks, lean=None, validate=False, **settings):
    lean = lean or LeanCallback(EXAMPLE, budget=leanrnn.Budget(mult_adds="40%"))
    settings = {
        "max_epochs": 4,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
    } | settings
    trainer = lightning.Trainer(
        callbacks=[lean, *callbacks], default_root_dir=folder, accelerator="cpu", num_sanity_val_steps=0, **settings
    )
    module = Tagger()
    trainer.fit(module, loader(), loader() if validate else None)
    return trainer, module, lean


@pytest.mark.parametrize("average", [EMAWeightAveraging(decay=0.9), StochasticWeightAveraging(1e-2, 2)])
def test_averages_are_cut_along(tmp_path, average):
    _, module, lean = fit(tmp_path, average)
    assert lean.attached.groups.widths["net.lstm.l0"] < 16
    inner = getattr(average._average_model, "module", average._average_model)
    for a, b in zip(inner.parameters(), module.parameters(), strict=True):
        assert torch.equal(a, b)


def test_widths_and_budget_are_in_logger_and_progress_bar(tmp_path):
    logger = CSVLogger(tmp_path)
    trainer, _, lean = fit(tmp_path, logger=logger)
    logger.save()
    head, *lines = Path(logger.log_dir, "metrics.csv").read_text().splitlines()
    values = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    assert values[0]["leanrnn/net.lstm.l0/width"] == "16"
    assert float(values[-1]["leanrnn/used/mult_adds"]) <= 1
    assert int(values[-1]["leanrnn/net.lstm.l0/width"]) == lean.attached.groups.widths["net.lstm.l0"]
    assert trainer.progress_bar_metrics["lean_mult_adds"] <= 1


def test_the_best_model_is_of_the_final_widths_and_any_checkpoint_can_be_tested(tmp_path):
    best = ModelCheckpoint(tmp_path, monitor="worse", filename="{epoch}", save_top_k=1)
    stop = EarlyStopping("worse", patience=3)
    trainer, module, lean = fit(tmp_path, best, stop, validate=True)
    assert best.best_model_path.endswith("epoch=1.ckpt")  # the first one after the last cut
    again, width = Tagger(), lean.attached.groups.widths["net.lstm.l0"]
    trainer.validate(again, loader(), ckpt_path=best.best_model_path, verbose=False)
    assert again.net.lstm.weight_hh_l0.shape == (4 * width, width)
    trainer.save_checkpoint(tmp_path / "dense.ckpt")
    dense = torch.load(tmp_path / "dense.ckpt", weights_only=False)
    dense["state_dict"] = Tagger().state_dict()
    torch.save(dense, tmp_path / "dense.ckpt")
    with pytest.raises(CheckpointError, match="Load it into a new model of full width"):
        trainer.validate(module, loader(), ckpt_path=str(tmp_path / "dense.ckpt"), verbose=False)


def test_a_part_of_the_module_and_a_strength(tmp_path):
    lean = LeanCallback(EXAMPLE, module="net", strength=20.0, mode="proximal", compact_every=5)
    with pytest.warns(LeanRNNWarning, match="only one component is left"):  # it is that strong
        _, module, _ = fit(tmp_path, lean=lean)
    assert lean.attached.groups.names == ["lstm.l0"] and module.net.lstm.hidden_size == 1


def test_too_little_is_warned_of(tmp_path):
    with pytest.warns(LeanRNNWarning, match="nothing was removed"):
        fit(tmp_path, lean=LeanCallback(EXAMPLE, strength=1e-9), max_epochs=1)


def test_two_processes_stay_alike(tmp_path):
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "tests.frameworks.test_lightning", tmp_path], env=environment, check=True)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert first["net.lstm.weight_hh_l0"].shape[1] < 16 and all(
        torch.equal(first[name], second[name]) for name in first
    )


if __name__ == "__main__":
    trainer, module, _ = fit(sys.argv[1], strategy="ddp", devices=2)
    torch.save(module.state_dict(), Path(sys.argv[1], f"{trainer.global_rank}.pt"))
