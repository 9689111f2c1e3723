"""``leanrnn measure``: what runs is shown, what does not is told with its reason, and noise has no ratio."""

import json
import sys
from pathlib import Path

import pytest
import torch

import leanrnn
from leanrnn.cli.main import main
from leanrnn.deploy import RUNTIMES
from leanrnn.errors import ExportError
from leanrnn.groups import count_weights

MODELS = """
import torch
from torch import nn

print("a module that talks")

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 6)
        self.head = nn.Linear(6, 3)
        self.rnn.bias_hh_l0.requires_grad_(False)

    def forward(self, x):
        return self.head(self.rnn(x)[0])

class Odd(Tagger):
    def forward(self, x):
        y = self.rnn(x)[0].transpose(0, 1)
        return torch.linalg.eigvals(y @ y.mT).real

def tagger():
    return Tagger(), torch.zeros(5, 2, 4)

def odd():
    return Odd(), torch.ones(5, 2, 4)
"""
QUICK = ["--seconds", "0.01", "--threads", "1"]


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """models.py and a file of each of its models, in the current folder."""
    Path(tmp_path, "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "models", raising=False)
    import models

    for name in ("tagger", "odd"):
        leanrnn.save(getattr(models, name)()[0], f"{name}.safetensors")
    yield models
    sys.modules.pop("models", None)


def measured(capsys, *words: str) -> dict:
    capsys.readouterr()
    assert main(["measure", *words, *QUICK, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_model_that_cannot_be_exported_is_measured_in_torch(capsys):
    command = ["odd.safetensors", "--factory", "models.py:odd", "--runtimes", "torch", "onnxruntime", "int8"]
    found = measured(capsys, *command)
    assert [row["runtime"] for row in found["measured"]] == ["torch"]
    assert [each["runtime"] for each in found["not_run"]] == ["onnxruntime", "int8"]
    assert all("linalg_eig" in each["reason"] for each in found["not_run"])
    assert main(["measure", *command, *QUICK]) == 0
    out = capsys.readouterr().out
    assert "odd.safetensors was not measured in onnxruntime: " in out and "peak memory" in out


def test_one_runtime_that_fails_does_not_stop_the_others(capsys, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("no such instruction")

    def no_bits(*_, **__):
        raise ExportError("no bits today. Try tomorrow.")

    openvino = RUNTIMES["openvino"]
    monkeypatch.setitem(RUNTIMES, "openvino", type(openvino)(openvino.reads, openvino.extra, broken))
    monkeypatch.setattr(leanrnn, "quantize", no_bits, raising=False)
    found = measured(capsys, "tagger.safetensors", "--factory", "models.py:tagger")
    assert [row["runtime"] for row in found["measured"]] == ["torch", "onnxruntime"]
    assert {each["runtime"]: each["reason"] for each in found["not_run"]} == {
        "openvino": "ZeroDivisionError: no such instruction", "int8": "no bits today. Try tomorrow.",
    }  # fmt: skip


def test_what_is_not_installed_is_told(capsys, monkeypatch):
    extra = RUNTIMES["openvino"].extra
    absent = type(extra)("openvino", ("openvino_of_another_name",))
    monkeypatch.setitem(RUNTIMES, "openvino", type(RUNTIMES["openvino"])(".onnx", absent, RUNTIMES["openvino"].open))
    command = ["tagger.safetensors", "--factory", "models.py:tagger", "--runtimes", "torch", "openvino"]
    (left,) = measured(capsys, *command)["not_run"]
    assert left["runtime"] == "openvino" and "pip install leanrnn[openvino]" in left["reason"]
    assert main(["measure", *command[:3], "--runtimes", "openvino", *QUICK]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "tagger.safetensors was not measured in openvino: " in err


def test_noise_has_no_ratio(capsys, monkeypatch):
    command = ["tagger.safetensors", "--against", "tagger.safetensors", "--factory", "models.py:tagger"]
    command += ["--runtimes", "torch"]
    times = {0: [1.0] * 8, 1: [2.0] * 8}
    monkeypatch.setattr("leanrnn.deploy.in_turns", lambda calls, *_: {key: times[key[0]] for key in calls})
    first, second = measured(capsys, *command)["measured"]
    assert first["ratio"] == 2 and not first["noisy"] and "ratio" not in second
    times[1] = [2.0, 2.0, 2.0, 2.0, 9.0, 9.0, 9.0, 9.0]
    first, second = measured(capsys, *command)["measured"]
    assert first["ratio"] is None and second["noisy"] and not first["noisy"]
    assert main(["measure", *command, *QUICK]) == 0
    out = capsys.readouterr().out
    assert "other work was\ngoing on" in out and out.count(" noisy\n") == 1 and "2.00\n" not in out


def test_files_are_timed_at_the_lengths_of_the_users_example(capsys, monkeypatch):
    seen = []
    turns = leanrnn.deploy.in_turns

    def note(calls, *words):
        seen.extend(call() for call in calls.values())
        return turns(calls, *words)

    monkeypatch.setattr("leanrnn.deploy.in_turns", note)
    command = ["tagger.safetensors", "--factory", "models.py:tagger", "--runtimes", "torch", "onnxruntime"]
    assert measured(capsys, *command)["not_run"] == []
    assert tuple(seen[0].shape) == (5, 2, 3) and seen[1][0].shape == (5, 2, 3)


def test_weights_are_one_number_wherever_they_are_told(capsys, models):
    model, example = models.tagger()
    weights = count_weights(model)
    assert weights == sum(each.numel() for each in model.state_dict().values())  # frozen ones too
    found = measured(capsys, "tagger.safetensors", "--factory", "models.py:tagger", "--runtimes", "torch")
    assert found["models"][0]["weights"] == weights == leanrnn.measure(model, example, seconds=0.01).weights
    leanrnn.export(model, example, "tagger.onnx")
    assert measured(capsys, "tagger.onnx", "--runtimes", "onnxruntime")["models"][0]["weights"] == weights
    groups = leanrnn.discover(model, torch.randn(5, 2, 4))
    assert groups.costs.weights.at(groups.widths) == weights
