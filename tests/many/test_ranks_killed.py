"""One of two processes is killed, and all start again from the last checkpoint, to the same bits."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from leanrnn.lab.disk import digest
from tests.many.processes import ROOT, children, finished, kill, started, when
from tests.support.asked import write_squad
from tests.support.tiny import write_book

pytestmark = [
    pytest.mark.many,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
TEXT = (
    "train text-dense --data book.txt --vocabulary 40 --held-out 0.2 --embedding 8 --widths 10 9 --batch 21 --window 6"
)
TEXT += " --threads 1 --budget mult_adds=50% --keep 0.9 --epochs 6 --out run"
QUESTIONS = "train squad-bidaf-lean --data data --width 6 --steps 12 --batch 16 --evaluate 6 --judged 5 --threads 1"
QUESTIONS += " --word-count 0 --character-count 0 --out run"


def trained(folder: Path, program: list[str], kills: tuple[str, int] | None) -> str:
    """The log of a program in two processes, one of which is killed when something is told."""
    folder.mkdir(exist_ok=True)
    with started([*TORCHRUN, "--max-restarts", "1", *program], folder) as run:
        if kills:
            when(folder, kills[0], run)
            kill(children(run.pid)[kills[1]])
        return finished(run, folder)


def test_a_loop_of_ones_own(tmp_path):
    program = [str(ROOT / "examples" / "many_processes.py"), "."]
    trained(tmp_path / "whole", program, None)
    told = trained(tmp_path / "killed", program, ("epoch 3:", 0))
    assert "epoch 8:" in told and "exitcode: -9" in told
    whole, killed = (load_file(tmp_path / name / "detector.safetensors") for name in ("whole", "killed"))
    assert whole.keys() == killed.keys() and all(torch.equal(whole[name], killed[name]) for name in whole)


def test_a_recipe(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        write_book(tmp_path / name)
    program = ["-m", "leanrnn", *TEXT.split()]
    trained(tmp_path / "whole", program, None)
    told = trained(tmp_path / "killed", program, ("epoch  2 of 6", 1))
    assert told.count("epoch  6 of 6") == 1 and "the model is run/model.safetensors" in told
    models = [tmp_path / name / "run" / "model.safetensors" for name in ("whole", "killed")]
    assert digest(models[0]) == digest(models[1])
    result = json.loads((tmp_path / "killed" / "run" / "result.json").read_text())
    assert result["used"]["mult_adds"] <= 1


def test_questions(tmp_path, monkeypatch):
    """Batches are shared out, also those with fewer questions than processes."""
    monkeypatch.setenv("LEANRNN_CACHE", str(tmp_path / "cache"))
    write_squad(tmp_path / "data")
    trained(tmp_path, ["-m", "leanrnn", *QUESTIONS.split()], None)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert 0 <= result["f1"] <= 100 and len(result["f1_by_evaluation"]) == 2
