"""Hugging Face's Trainer: what it logs, the best model, models with the Hub's mixin, and DDP."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

import leanrnn
from leanrnn.errors import IntegrationError
from leanrnn.integrations.hub import from_pretrained, save_pretrained
from leanrnn.integrations.transformers import LeanCallback

# torch 2.13 warns of how others call it.
pytestmark = pytest.mark.filterwarnings("ignore:`broadcast_buffers`", "ignore::DeprecationWarning")
EXAMPLE = {"x": torch.zeros(2, 6, 4)}


class Config(PretrainedConfig):
    model_type = "tagger"
    hidden = 16


class Tagger(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.lstm = nn.LSTM(4, config.hidden, batch_first=True)
        self.head = nn.Linear(config.hidden, 3)
        self.post_init()

    def forward(self, x, labels=None):
        logits = self.head(self.lstm(x)[0])
        return {"loss": logits.sum() if labels is None else nn.functional.mse_loss(logits, labels), "logits": logits}


class Mixed(nn.Module, PyTorchModelHubMixin):
    def __init__(self, hidden: int = 8):
        super().__init__()
        self.lstm = nn.LSTM(4, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def trained(folder, *, join=True, **settings):
    torch.manual_seed(0)
    data = [{"x": x, "labels": x.cumsum(0)[:, :3]} for x in torch.randn(80, 6, 4)]
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "epoch"}
    arguments = TrainingArguments(
        folder, num_train_epochs=4, per_device_train_batch_size=8, logging_steps=5, **quiet | settings
    )
    trainer = Trainer(Tagger(Config()), arguments, train_dataset=data, eval_dataset=data[:8])
    lean = LeanCallback(EXAMPLE, budget=leanrnn.Budget(mult_adds="40%"))
    if join:
        lean.join(trainer)
        trainer.train()
    return trainer, lean


def test_widths_are_in_the_logs_and_the_best_model_is_of_the_final_widths(tmp_path):
    scores = iter([0.1, 0.4, 0.3, 0.2])
    trainer, lean = trained(tmp_path, join=False, eval_strategy="epoch", load_best_model_at_end=True)
    trainer.compute_metrics, trainer.args.metric_for_best_model = (lambda _: {"worse": next(scores)}), "worse"
    trainer.args.greater_is_better = False
    lean.join(trainer)
    trainer.train()
    width = lean.attached.groups.widths["lstm.l0"]
    assert width < 16 and trainer.model.lstm.hidden_size == width
    assert trainer.state.best_metric == 0.2  # not 0.1, which is of a wider model
    logged = [log for log in trainer.state.log_history if "loss" in log]
    assert logged[0]["leanrnn/lstm.l0/width"] == 16 and logged[-1]["leanrnn/lstm.l0/width"] == width
    assert logged[-1]["leanrnn/used/mult_adds"] <= 1


def test_a_lean_model_is_published_and_read_again(tmp_path):
    trainer, _ = trained(tmp_path / "run")
    save_pretrained(trainer.model, tmp_path / "hub", scores={"loss": 0.5})
    again = from_pretrained(tmp_path / "hub", Tagger)
    assert torch.equal(again(**EXAMPLE)["logits"], trainer.model.eval()(**EXAMPLE)["logits"])
    mixed = Mixed(9)
    groups = leanrnn.discover(mixed, EXAMPLE["x"])
    small = leanrnn.shrink(mixed, groups, keep_widths={"lstm.l0": 4})
    save_pretrained(small, tmp_path / "mixed")
    assert torch.equal(from_pretrained(tmp_path / "mixed", Mixed)(EXAMPLE["x"]), small(EXAMPLE["x"]))


def test_what_cannot_work_is_refused(tmp_path):
    trainer, lean = trained(tmp_path, join=False)
    trainer.model_init = lambda: Tagger(Config())
    with pytest.raises(IntegrationError, match="model_init builds the model anew"):
        lean.join(trainer)
    trainer.model_init, trainer.args.restore_callback_states_from_checkpoint = None, True
    with pytest.raises(IntegrationError, match="this one restores itself"):
        lean.join(trainer)


def test_two_processes_stay_alike(tmp_path):
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", __spec__.name]
    subprocess.run([sys.executable, *command, tmp_path], env=environment, check=True)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert first["lstm.weight_hh_l0"].shape[1] < 16
    assert all(torch.equal(first[name], second[name]) for name in first)


if __name__ == "__main__":
    done, _ = trained(sys.argv[1], ddp_backend="gloo", save_strategy="no")
    torch.save(done.model.state_dict(), Path(sys.argv[1], f"{done.args.process_index}.pt"))
