"""Every code block of the README and the docs runs, top to bottom, and prints what it says it prints."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

import leanrnn
from benchmarks.common import table
from benchmarks.frameworks.prove import HEAD, RESULT, rows
from leanrnn.cli.main import main

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ROOT / "docs" / "frameworks"
"""Pages whose blocks `make integrations` runs, each where its framework is installed."""
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - set(FRAMEWORKS.glob("*.md")))]
# Blocks that are text, not code, and commands that set up or take minutes; what `leanrnn demo` does is in test_cli.py,
# and examples have tests of their own.
TEXT = {"text", ""}
NOT_RUN = ("make", "git", "pip", "leanrnn demo", "python -m benchmarks", "python examples/")
# The same commands on a small text are in test_train.py.
NOT_RUN += tuple(f"leanrnn {rest}" for rest in ("train", "measure runs/", "shrink runs/", "export runs/", "quantize"))
NOT_RUN += ("leanrnn report",)  # in test_report.py
NOT_RUN += ("leanrnn answer",)  # in test_squad_train.py
NOT_RUN += ("torchrun", "leanrnn sweep")  # in tests/many and test_sweep.py


class Block(NamedTuple):
    """A fenced block: its language, its text, its line in the page."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))  # commands add to it
    names: dict[str, object] = {"__name__": "page"}
    for language, text, line in blocks(page):
        if language == "python":
            _save_if_named(text)
            # Padded, so that a traceback shows the page's own line.
            exec(compile("\n" * line + text, str(page), "exec"), names)
            _compare(text, capsys.readouterr().out)
        elif language == "console":
            _run_console(text, capsys)
        elif language == "c":
            Path(re.match(r"/\* (\w+\.c) \*/", text)[1]).write_text(text, encoding="utf-8")
        elif language == "diff":
            _run_diff(text)
        else:
            assert language in TEXT, f"{page.name}:{line}: no way to run {language!r}"


def _save_if_named(text: str) -> None:
    """A block that starts with `# name.py` is also written to that file, for the commands that follow."""
    if match := re.match(r"# (\w+\.py)\n", text):
        Path(match[1]).write_text(text, encoding="utf-8")


def _compare(text: str, printed: str) -> None:
    """Lines after `# prints:` are what the block prints."""
    _, _, promised = text.partition("# prints:\n")
    if promised:
        assert printed.rstrip() == re.sub(r"^# ?", "", promised, flags=re.MULTILINE).rstrip()


def _run_console(text: str, capsys) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, promised = part.partition("\n")
        if command.startswith(NOT_RUN):
            continue
        program, *arguments = shlex.split(command)
        if program == "cc" or program.startswith("./"):  # what is written in C, and what is made of it
            printed = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
        else:
            assert program == "leanrnn" and main(arguments) == 0, command
            printed = capsys.readouterr().out
        assert not promised or printed.rstrip() == promised.rstrip(), command


def _run_diff(text: str) -> None:
    """Run the loop with the added lines, and without them: with them the model is smaller, whatever the optimizer."""
    for optimizer, rate in ((torch.optim.SGD, 0.1), (torch.optim.Adam, 1e-3)):
        for kept in ("+ ", "  "):
            torch.manual_seed(0)
            model, batches = SequenceTagger(), torch.randn(40, 8, 5, 4)
            names = {
                "model": model,
                "example": torch.zeros(2, 5, 4),
                "optimizer": optimizer(model.parameters(), lr=rate),
                "loss_fn": nn.functional.mse_loss,
                "loader": [SimpleNamespace(x=x, y=x.cumsum(1)[..., :3]) for x in batches],
            }
            before = leanrnn.discover(model, names["example"]).costs.mult_adds
            lines = [line[2:] for line in text.splitlines() if line[:2] in {kept, "  "}]
            exec("\n".join(lines), names)
            assert ("small" in names) == (kept == "+ ")
            if "small" in names:
                after = leanrnn.discover(names["small"], names["example"])
                assert type(names["small"]) is SequenceTagger
                assert 0.2 < after.costs.mult_adds.at(after.widths) / before.at(dict.fromkeys(after.widths, 16)) <= 0.25


class SequenceTagger(nn.Module):
    """Somebody's model."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


def test_every_framework_has_a_page_with_a_program_and_is_proven():
    pages = {page.stem for page in FRAMEWORKS.glob("*.md")}
    assert all(any(block.language == "python" for block in blocks(FRAMEWORKS / f"{name}.md")) for name in pages)
    assert pages == {path.stem for path in (ROOT / "benchmarks" / "frameworks" / "requirements").glob("*.txt")}
    proven = json.loads(RESULT.read_text(encoding="utf-8"))["frameworks"]
    assert pages == set(proven)
    assert table(HEAD, rows(proven)) in (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")


def test_pages_have_blocks_of_every_kind():
    assert {"python", "console", "diff"} <= {block.language for block in blocks(ROOT / "README.md")}


def test_contributing_names_every_file():
    """The table of files is true: each file and folder of the package stands in it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([\w/.]+)` \| (?=.*\|$)", text[text.index("| file | what |") :], re.MULTILINE))
    parts = {path.relative_to(ROOT / "src" / "leanrnn").parts for path in (ROOT / "src" / "leanrnn").rglob("*.py")}
    assert rows == {part[0] if len(part) == 1 else f"{part[0]}/" for part in parts}
