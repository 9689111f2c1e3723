"""A format is one entry: whoever writes, reads, checks or measures a file asks it, and nobody else looks at a name."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import leanrnn
from leanrnn.cli.artefacts import Given, artefacts
from leanrnn.cli.main import main
from leanrnn.deploy import FORMATS, RUNTIMES, File, Runtime, metadata_of, runner_of
from leanrnn.deploy.files import free_lengths, inputs_for
from leanrnn.deploy.formats.pt2 import TorchProgram
from leanrnn.errors import ExportError

PACKAGE = Path(leanrnn.__file__).parent


class Packs(nn.Module):
    """Takes what pack_padded_sequence returns."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(5, 7), nn.Linear(7, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0].data)


class Renamed(TorchProgram):
    """A format that somebody adds, for a runtime there is."""

    suffix, title = ".mine", "file of mine"


def test_a_new_format_is_one_entry(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, ".mine", Renamed())
    monkeypatch.setitem(RUNTIMES, "another", Runtime(".mine", None, RUNTIMES["torch"].open))
    model, x = nn.GRU(5, 7).eval(), torch.randn(4, 3, 5)
    written = leanrnn.export(model, x, tmp_path / "m.mine", about={"language": "en"})
    assert written.inputs == {"input": (4, "batch", 5)} and written.difference < 1e-5
    assert metadata_of(written.path)["about"] == {"language": "en"}
    torch.testing.assert_close(runner_of(written.path)([x])[0], model(x)[0].detach())
    with pytest.raises(ExportError, match="is a file of mine, which leanrnn does not write in eight bits"):
        leanrnn.quantize(written.path)
    with pytest.raises(ExportError, match=re.escape(f"neither {' nor '.join(FORMATS)}.")):
        leanrnn.export(model, x, tmp_path / "m.other")
    assert set(artefacts(Given(written.path), tmp_path / "files").runtimes) == {"torch", "another"}
    File(written.path, "torch", {"batch": 2}).caller(threads=1)()


def test_nobody_else_looks_at_how_a_name_ends():
    home = PACKAGE / "deploy" / "formats"
    for path in PACKAGE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_bytes()))
        asked = [node for node in nodes if isinstance(node, ast.Compare | ast.Call | ast.Match)]
        asked = [n for n in asked if not isinstance(n, ast.Call) or getattr(n.func, "attr", "") == "endswith"]
        texts = {leaf.value for node in asked for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
        assert path.is_relative_to(home) or not texts & set(FORMATS), path


def test_runtimes_read_formats_there_are():
    assert {runtime.reads for runtime in RUNTIMES.values()} <= set(FORMATS)
    assert {form.runtime for form in FORMATS.values()} <= set(RUNTIMES)


def test_measuring_a_file_loads_no_torch():
    code = "import sys, leanrnn.deploy, leanrnn.deploy.peak; print({'torch', 'onnxruntime'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_a_file_in_every_runtime(tmp_path):
    model, x, sizes = nn.LSTM(5, 7).eval(), torch.randn(4, 3, 5), {"batch": 2, "time": 4}
    files = {form.suffix: leanrnn.export(model, x, tmp_path / f"m{form.suffix}").path for form in FORMATS.values()}
    found = []
    for name, runtime in RUNTIMES.items():
        file = File(files[runtime.reads], name, sizes)
        found.append(file.caller(threads=1)()[0])
        assert file.bytes == files[runtime.reads].stat().st_size
        np.testing.assert_allclose(found[-1], found[0], rtol=1e-4, atol=1e-5)
    bare, torch_too = (File(files[RUNTIMES[n].reads], n, sizes).peak_bytes(1) for n in ("onnxruntime", "torch"))
    assert 0 < bare < torch_too  # a process that runs onnxruntime has no torch in it


def test_a_program_of_torch_can_be_measured(tmp_path, capsys):
    written = leanrnn.export(nn.LSTM(5, 7), torch.randn(4, 3, 5), tmp_path / "m.pt2")
    assert main(["measure", str(written.path), "--seconds", "0.01", "--threads", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["measured"]
    assert row["runtime"] == "torch" and row["file_bytes"] == written.path.stat().st_size
    assert main(["measure", str(written.path), "--runtimes", "onnxruntime"]) == 2
    assert "none of onnxruntime reads .pt2" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_mistakes_with_files(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    with pytest.raises(ExportError, match=f"there is no file .*m{suffix}"):
        metadata_of(path)
    path.write_text("no model")
    with pytest.raises(ExportError, match=r"is damaged or no (ONNX file|program of torch)"):
        metadata_of(path)
    if suffix == ".pt2":
        torch.export.save(torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),)), path)
    else:
        onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], [])), str(path))
    with pytest.raises(ExportError, match="was not written by leanrnn"):
        metadata_of(path)


def test_metadata_of_files_written_before_is_read(tmp_path):
    """As version 0.1.0 wrote it."""
    before = {
        "version": "0.1.0", "inputs": {"words": ["time", "batch"], "lengths": ["batch"]}, "lengths": ["lengths"],
        "values": {"words": ["int64", 3, 29], "lengths": ["int64", 2, 5]}, "widths": {"rnn": [3, 5]}, "weights": 99,
        "plan": {}, "about": {"language": "en"},
    }  # fmt: skip
    model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
    onnx.helper.set_model_props(model, {"leanrnn": json.dumps(before)})
    onnx.save(model, str(tmp_path / "old.onnx"))
    metadata = metadata_of(tmp_path / "old.onnx")
    assert metadata == before and free_lengths(metadata) == {"time", "batch"}
    inputs = inputs_for(metadata, {"time": 7, "batch": 2})
    assert inputs["words"].shape == (7, 2) and 3 <= inputs["words"].min() and inputs["lengths"].tolist() == [7, 7]


def test_a_packed_sequence_is_measured_and_refused_with_what_to_do(tmp_path):
    packed = pack_padded_sequence(torch.randn(6, 3, 5), torch.tensor([6, 4, 2]))
    model = Packs()
    assert leanrnn.measure(model, packed, threads=1, seconds=0.01).mult_adds == 12 * (4 * 7 * 12 + 7 * 2)
    for example in (packed, (packed,), {"x": packed}):
        with pytest.raises(ExportError, match=r"packed sequence.* padded tensor and the lengths.* in its forward"):
            leanrnn.export(model, example, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
