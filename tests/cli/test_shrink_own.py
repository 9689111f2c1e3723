"""``leanrnn shrink`` of a model, data and a loss that stand in somebody's file."""

import importlib.util
import json

import pytest
import torch

import leanrnn
from leanrnn.cli.main import main

FILE = '''
import torch
from torch import nn


class Counter(nn.Module):
    """Whether more ones than zeros were seen so far, at every step."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        y, state = self.rnn(x)
        return self.head(y), state


def counter():
    torch.manual_seed(0)
    return Counter(), torch.zeros(2, 5, 1)


def batches(seed=1, count=12):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randint(0, 2, (16, 10, 1), generator=generator).float()
        yield x, ((2 * x[..., 0] - 1).cumsum(1) > 0).long()


def others():
    return list(batches(seed=2, count=3))


def error(scores, target):
    return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


def each(scores, target):
    return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="none")


def nothing():
    return []


def triples():
    return [(1, 2, 3)] * 30
'''
BUDGET = ["--budget", "mult_adds=40%"]
TRAIN = ["shrink", "own.py:counter", "--out", "small.safetensors", *BUDGET, "--data", "own.py:batches"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "own.py").write_text(FILE)
    return tmp_path


def made(folder):
    spec = importlib.util.spec_from_file_location("own_again", folder / "own.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("more", [[], ["--loss", "own.py:error", "--teacher", "0.3"]])
def test_it_is_trained_within_the_budget(folder, capsys, more):
    words = [*TRAIN, "--valid", "own.py:others", "--epochs", "4", "--rate", "1e-2", *more]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:4]] == ["1", "2", "3", "4"] and "recovering" in lines[3]
    assert ("recovering" in lines[0]) == ("--teacher" in more)  # what is trained already is cut at once
    table = {line.split()[0]: line.split()[1:] for line in lines[5:8]}
    assert float(table["loss"][1]) < float(table["loss"][0])
    small = leanrnn.load("small.safetensors", lambda: made(folder).counter()[0])
    groups = leanrnn.discover(made(folder).counter()[0], torch.zeros(2, 5, 1))
    assert 0.85 * 0.4 < int(table["mult-adds"][1].replace(",", "")) / groups.costs.mult_adds.at(groups.widths) <= 0.4
    assert int(table["weights"][1].replace(",", "")) == sum(p.numel() for p in small.parameters())


def test_json_is_all_that_is_printed(capsys):
    assert main([*TRAIN, "--valid", "own.py:others", "--epochs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["after"]["weights"] < found["before"]["weights"] and found["after"]["loss"] > 0


def test_without_data_it_is_cut_at_once(capsys):
    assert main(["shrink", "own.py:counter", "--out", "small.safetensors", *BUDGET]) == 0
    assert (
        "gives the same results as own.py:counter, with the removed units at zero. Fine-tune it next."
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--loss", "cros_entropy"], "torch.nn.functional has no loss 'cros_entropy'"),
        (["--loss", "own.py:each"], "the loss has shape (160,). Return one number"),
        (["--data", "own.py:nothing"], "the data has no batch"),
        (["--data", "own.py:triples"], "a batch of the data is 3 parts. Make it a pair"),
        (["--data", "own.py:batchs"], "Did you mean batches?"),
        (["--epochs", "0"], "epochs is 0. Give at least 1."),
        (["--rate", "0"], "rate is 0. Give a number above 0."),
        (["--teacher", "2"], "teacher is 2. Give a part of the loss, from 0 to 1."),
        (["--ratio", "0.5"], "--data trains within a budget alone"),
        (["--round-to", "4"], "add it to the budget: round_to=4"),
        (["--budget", "mult_adds=0.1%"], "18.5 mult-adds are not possible"),
    ],
)
def test_mistakes_are_one_sentence(capsys, change, told):
    assert main([*TRAIN, "--epochs", "1", *change]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and told in lines[0]


@pytest.mark.parametrize("change", [["--valid", "own.py:others"], ["--epochs", "3"], ["--teacher", "0.5"]])
def test_settings_of_training_want_data(capsys, change):
    assert main(["shrink", "own.py:counter", "--out", "small.safetensors", *BUDGET, *change]) == 2
    assert capsys.readouterr().err == f"error: {change[0]} is for training. Say on what: --data MODULE:FUNCTION.\n"


def test_data_are_for_models_of_ones_own(capsys):
    assert main(["shrink", "own.py:counter", "--out", "small.safetensors", *BUDGET]) == 0
    words = ["shrink", "small.safetensors", "--factory", "own.py:counter", "--out", "x.safetensors", *BUDGET]
    assert main([*words, "--data", "own.py:batches"]) == 2
    assert "--data trains a model of your own, and small.safetensors is none" in capsys.readouterr().err
