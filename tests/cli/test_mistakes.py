"""Mistakes of a careless new user, in every command: one line each that says what was wrong, where, and what to do."""

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.cli.main import main

MODELS = """
import numpy as np
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.lstm = nn.LSTM(4, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])

def tagger(): return Tagger(), torch.zeros(5, 2, 4)
def wide(): return Tagger(9), torch.zeros(5, 2, 4)
def numpy(): return Tagger(), np.zeros((5, 2, 4), np.float32)
def nothing(): return Tagger(), None
def text(): return Tagger(), "hello"
def listed(): return Tagger(), [torch.zeros(5, 2, 4)]
def misnamed(): return Tagger(), {"y": torch.zeros(5, 2, 4)}
def too_many(): return Tagger(), (torch.zeros(5, 2, 4), torch.zeros(2), torch.zeros(2))
def needy(width): return Tagger(width), torch.zeros(5, 2, 4)
def broken(): raise ZeroDivisionError("on purpose")
"""
EXAMPLES = [
    ("numpy", "There is a NumPy array in the example. Give a tensor: torch.from_numpy(array)."),
    ("nothing", "The example is None. Give a tensor,"),
    ("text", "There is no tensor in the example, a str."),
    ("listed", "The example is a list, which is one input. Give a tuple for several."),
    ("misnamed", "The example gives y, and forward takes (x)."),
    ("too_many", "The example gives 3 positional inputs, and forward takes (x)."),
    ("needy", "models.py:needy cannot be called without arguments"),
    ("broken", "ZeroDivisionError: on purpose (raised at "),
]
WITH_EXAMPLE = {
    "discover": ["discover", "models.py:{}"],
    "measure": ["measure", "t.safetensors", "--seconds", "0.01", "--factory", "models.py:{}"],
    "export": ["export", "t.safetensors", "--out", "x.onnx", "--factory", "models.py:{}"],
    "shrink": ["shrink", "t.safetensors", "--out", "x.safetensors", "--ratio", "0.5", "--factory", "models.py:{}"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with models.py, a file of its tagger, and files that are none, as the current one."""
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "book.txt").write_text("One day the small model met a large model.\n")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "models", raising=False)
    import models

    leanrnn.save(models.Tagger(), "t.safetensors")
    leanrnn.save(models.Tagger(), "run/model.safetensors")
    yield tmp_path
    sys.modules.pop("models", None)


def mistake(capsys, *words: str) -> str:
    """What is told; it is one line, and nothing was written."""
    before = {path for path in Path().rglob("*") if "__pycache__" not in path.parts}
    capsys.readouterr()
    assert main(list(words)) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and told.count("\n") == 1
    assert {path for path in Path().rglob("*") if "__pycache__" not in path.parts} == before
    return told


@pytest.mark.parametrize("words", WITH_EXAMPLE.values(), ids=WITH_EXAMPLE)
@pytest.mark.parametrize(("function", "message"), EXAMPLES)
def test_examples_that_do_not_fit(capsys, words, function, message):
    assert message in mistake(capsys, *(word.format(function) for word in words))


def test_a_model_of_ones_own_is_shrunk(capsys):
    words = [word.format("tagger") for word in WITH_EXAMPLE["shrink"]]
    assert main(words) == 0
    assert (
        "gives the same results as t.safetensors, with the removed units at zero. Fine-tune it next."
        in capsys.readouterr().out
    )
    import models

    assert leanrnn.load("x.safetensors", models.Tagger).lstm.hidden_size == 3


THREADS = {
    "train": ["train", "text", "--data", "book.txt"],
    "demo": ["demo"],
    "measure": ["measure", "t.safetensors", "--factory", "models.py:tagger"],
    "report": ["report", "run"],
}


@pytest.mark.parametrize("words", THREADS.values(), ids=THREADS)
@pytest.mark.parametrize("count", ["0", "-2"])
def test_no_thread_is_too_few(capsys, words, count):
    assert f"threads is {count}. Give at least 1." in mistake(capsys, *words, "--threads", count)


OUT = {
    "shrink": (["shrink", "t.safetensors", "--factory", "models.py:tagger"], ".safetensors"),
    "export": (["export", "t.safetensors", "--factory", "models.py:tagger"], ".onnx"),
    "quantize": (["quantize", "t.onnx"], ".onnx"),
    "report": (["report", "run"], ".html"),
}


@pytest.fixture
def untouched(monkeypatch, folder):
    """Fails where work begins: a place to write to is looked at before."""
    (folder / "t.onnx").write_bytes(b"")
    monkeypatch.setattr("leanrnn.deploy.formats.base.Format.metadata", lambda *_: {})

    def begun(*args, **kwargs):
        raise AssertionError("work began")

    for name in ("discover", "export"):
        monkeypatch.setattr(f"leanrnn.{name}", begun)
    monkeypatch.setattr("leanrnn.deploy.formats.onnx.Onnx.quantize", begun)
    monkeypatch.setattr("leanrnn.lab.report.story.read_stories", begun)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("words", "suffix"), OUT.values(), ids=OUT)
def test_where_nothing_can_be_written_is_told_before_the_work(capsys, monkeypatch, words, suffix):
    told = mistake(capsys, *words, "--out", f"nowhere/x{suffix}")
    assert f"there is no folder nowhere for x{suffix}. Create it first." in told
    Path(f"made{suffix}").mkdir()
    assert f"made{suffix} is a folder. Name a file to write" in mistake(capsys, *words, "--out", f"made{suffix}")
    Path(f"kept{suffix}").write_text("")
    allowed = os.access
    monkeypatch.setattr("os.access", lambda path, mode: "kept" not in str(path) and allowed(path, mode))
    assert f"kept{suffix} is there and write-protected." in mistake(capsys, *words, "--out", f"kept{suffix}")


@pytest.mark.parametrize("words", [["train", "text", "--data", "book.txt"], ["demo"]], ids=["train", "demo"])
def test_a_run_needs_a_folder(capsys, words):
    told = mistake(capsys, *words, "--out", "book.txt/run")
    assert "book.txt is a file. Name another with --out." in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["quantize", "run"],
            "Export it first, leanrnn export run --out run.onnx, and then: leanrnn quantize run.onnx",
        ),
        (["quantize", "t.safetensors"], "leanrnn export t.safetensors --out t.onnx"),
        (["quantize", "bad.onnx"], "bad.onnx is damaged or no ONNX file"),
        (["quantize", "bad.onnx", "--out", "bad.onnx", "--seconds", "-1"], "seconds is -1. Give at least 0."),
        (["measure", "t.safetensors"], "needs the function that makes it too: --factory MODULE:FUNCTION"),
        (["measure", "models.py:tagger"], "models.py:tagger names a function. Give the file that leanrnn.save wrote"),
        (["measure", "bad.safetensors"], "bad.safetensors is damaged or no safetensors file"),
        (["measure", "bad.onnx"], "bad.onnx is damaged or no ONNX file"),
        (["measure", "t.safetensors", "--factory", "models.py:wide"], "has shape (24, 4) in t.safetensors and (36, 4)"),
        (["measure", "t.safetensors", "--factory", "models.py:tager"], "Did you mean tagger?"),
        (["measure", "t.safetensors", "--factory", "model.py:tagger"], "there is no file model.py"),
        (["shrink", "t.safetensors", "--out", "x"], "--factory MODULE:FUNCTION"),
        (["shrink", "bad.onnx", "--out", "x"], "is an exported ONNX file, which only runs. Give the run"),
        (["shrink", "run", "--out", "x.onnx"], "Name it .safetensors, and then use leanrnn export"),
        (["shrink", "run", "--out", "run/model.safetensors"], "is the file to shrink itself"),
        (["export", "bad.onnx", "--out", "x.onnx"], "is an exported ONNX file, which only runs"),
        (["train", "text", "--data", "book.txt", "--start", "nowhere"], "there is no model in nowhere"),
        (["train", "text", "--data", "book.txt", "--save-seconds", "-1"], "save_seconds is -1"),
        (["train", "txet", "--data", "book.txt"], "Did you mean text?"),
        (["report", "run", "--seconds", "-1"], "seconds is -1. Give at least 0."),
        (["discover", ".:tagger"], "'.:tagger' does not name a function"),
    ],
)
def test_what_to_do_instead_is_told(capsys, words, message):
    assert message in mistake(capsys, *words)


def test_an_exported_file_is_not_written_over_by_its_eight_bits(capsys):
    leanrnn.export(nn.LSTM(4, 6), torch.randn(5, 2, 4), "t.onnx")
    assert "is the file to quantise itself" in mistake(capsys, "quantize", "t.onnx", "--out", "t.onnx")
    assert "does not end in .onnx" in mistake(capsys, "quantize", "t.onnx", "--out", "t.int8")


def test_traceback_shows_the_way_in_every_command():
    for words in WITH_EXAMPLE.values():
        with pytest.raises(ZeroDivisionError):
            main([*(word.format("broken") for word in words), "--traceback"])
