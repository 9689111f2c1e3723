"""The examples run, on less data and for a shorter time than a reader would let them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime")
import onnxruntime

from examples import own_cell, tagger


@pytest.fixture(autouse=True)
def there(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


def test_own_cell(capsys):
    small, loss = own_cell.main(steps=300)
    told = capsys.readouterr().out
    assert "from_state     32    133  from_state, read" in told
    width = small.from_state.size(0)
    assert loss < 0.2 and width < 32
    x = own_cell.batch(steps=33)[0][:, :5]  # other lengths than the one it was exported with
    (found,) = onnxruntime.InferenceSession("own_cell.onnx").run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, small(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_tagger(cell, capsys):
    few = "--width 16 --vocabulary 300 --pieces 640 --epochs 6 --budget 40% --rate 5e-3 --out small.onnx".split()
    right = tagger.main([*few, "--cell", cell])
    told = capsys.readouterr().out
    assert 0 <= right <= 1 and "input {'words': ('batch', 'time')}" in told
    left = [int(word) for word in told.split(" right, ")[-1].split(" units")[0].split(" + ")]
    assert len(left) == 4 and sum(left) < 64 and "over, mult_adds" in told


def test_tags_are_what_the_text_had():
    assert list(tagger.tagged())[:1] != []
    model = lambda words: torch.nn.functional.one_hot(words % 8, 8).float()  # noqa: E731
    numbers = {"the": 1, "list": 4, "end": 5}
    assert tagger.restored(model, numbers, "the list end") == "The list. End."


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebook(path, capsys):
    cells = json.loads(path.read_text())["cells"]
    names = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["small"].rnn.hidden_size < 32 and "width" in capsys.readouterr().out
