"""The page that runs models in a browser, as far as it can be seen without one, and how its runtime is fetched."""

import base64
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import pytest
import torch

import leanrnn
from leanrnn.errors import ExportError
from leanrnn.lab.web import runtime as home
from leanrnn.lab.web.page import write_page
from leanrnn.lab.web.runtime import Runtime, fetch
from tests.support.served import LETTERS, WORDS, exported

FAKE = Runtime("onnxruntime-web 0.0.0", gzip.compress(b"export const env = {}"), gzip.compress(b"\0asm"))


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm that writes a small package, or does what it is told instead."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tmp_path / "package.tgz"
    with tarfile.open(archive, "w:gz") as opened:
        for name, text in (("dist/a.mjs", b"script"), ("dist/a.wasm", b"code")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text))
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    pinned = {"package": "p", "version": "1", "integrity": f"sha512-{digest}", "script": "dist/a.mjs"}
    monkeypatch.setattr(home, "_pinned", lambda: pinned | {"wasm": "dist/a.wasm"})
    usual = (
        f"import shutil; shutil.copy({str(archive)!r}, sys.argv[sys.argv.index('--pack-destination') + 1] + '/p.tgz')"
    )

    def write(code: str = usual) -> None:
        (folder / "npm").write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
        (folder / "npm").chmod(0o755)

    write()
    return write


def test_the_runtime_is_fetched_once(npm, tmp_path):
    found = fetch()
    assert (found.name, gzip.decompress(found.script), gzip.decompress(found.wasm)) == ("p 1", b"script", b"code")
    npm("sys.exit('not again')")
    assert fetch() == found
    assert [path.name for path in (tmp_path / "cache" / "leanrnn").iterdir()] == ["p-1"]


def test_what_is_not_the_known_package_is_refused(npm, monkeypatch, tmp_path):
    pinned = home._pinned()
    monkeypatch.setattr(home, "_pinned", lambda: pinned | {"integrity": "sha512-AAAA"})
    with pytest.raises(ExportError, match=r"another p\.tgz than leanrnn was tested with"):
        fetch()
    assert not list((tmp_path / "cache" / "leanrnn").iterdir())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "sys.exit('npm error code ENOTFOUND\\nnpm error network request failed')",
            "code ENOTFOUND, network request failed",
        ),
        ("sys.exit('Segmentation fault')", "it ended with 1"),
        ("pass", "it ended with 0"),
    ],
)
def test_why_it_cannot_be_had_is_one_line(npm, code, message):
    npm(code)
    with pytest.raises(ExportError, match=message) as raised:
        fetch()
    assert "\n" not in str(raised.value)


def test_npm_is_named_where_it_is_missing(npm, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ExportError, match="npm, which is not installed"):
        fetch()


def test_what_is_pinned_is_one_version_with_its_hash():
    pinned = home._pinned()
    assert re.fullmatch(r"\d+\.\d+\.\d+", pinned["version"])
    assert len(base64.b64decode(pinned["integrity"].removeprefix("sha512-"))) == 64


def block(page: str, name: str) -> str:
    """What stands in a script element of the page."""
    return re.search(rf'<script type="[\w/]+" id="{name}">(.*?)</script>', page, re.DOTALL)[1]


def test_the_page_holds_models_and_runtime_and_asks_for_nothing(tmp_path):
    words = [*WORDS, "</script>", "{{js}}"]
    dense, _ = exported(tmp_path, words, "dense")
    lean, model = exported(tmp_path, words, "lean", widths=(9, 7))
    lean = leanrnn.quantize(lean).path
    page = write_page(dense, lean, tmp_path / "page.html", prompt="the <b>", runtime=FAKE).read_text(encoding="utf-8")
    for name, wanted in {"dense": dense.read_bytes(), "lean": lean.read_bytes(), "runtime-wasm": b"\0asm"}.items():
        assert gzip.decompress(base64.b64decode(block(page, name))) == wanted
    data = json.loads(block(page, "data"))
    assert data["words"] == words and data["prompt"] == "the <b>" and data["kind"] == "word"
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert data["models"]["lean"] == {"bytes": lean.stat().st_size, "weights": weights, "widths": [9, 7]}
    assert not re.findall(r"https?://|\ssrc=|@import|url\(", page.replace(block(page, "data"), ""))
    assert "default-src 'none'" in page and page.count("{{") == 1  # the word


def test_models_that_do_not_fit_are_refused(tmp_path):
    path, model = exported(tmp_path, WORDS)
    other, _ = exported(tmp_path, LETTERS, "letters", tokens="character")
    with pytest.raises(ExportError, match="know different words"):
        write_page(path, other, tmp_path / "page.html", runtime=FAKE)
    leanrnn.export(torch.nn.Linear(2, 3), torch.zeros(4, 2), tmp_path / "linear.onnx")
    with pytest.raises(ExportError, match="not of a language model"):
        write_page(tmp_path / "linear.onnx", path, tmp_path / "page.html", runtime=FAKE)
    about = leanrnn.about(tmp_path / "model.safetensors")
    leanrnn.export(model, torch.zeros(4, 2, dtype=torch.long), tmp_path / "whole.onnx", about=about)
    with pytest.raises(ExportError, match="takes no state"):
        write_page(path, tmp_path / "whole.onnx", tmp_path / "page.html", runtime=FAKE)
    assert not (tmp_path / "page.html").exists()


def test_without_extras_the_demo_says_which(tmp_path, monkeypatch, capsys):
    from leanrnn.lab import Config
    from leanrnn.lab.demo.deliver import _report, deliver

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert _report(tmp_path, []) == []
    assert "No report: matplotlib not installed. Install with: pip install leanrnn[report]" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert deliver(tmp_path, None, Config(), "the") == []
    assert "onnxscript not installed. Install with: pip install leanrnn[onnx]" in capsys.readouterr().out
    assert not list(Path(tmp_path).iterdir())
