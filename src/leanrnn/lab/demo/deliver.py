"""What the demo's two runs become: files that run without PyTorch, their times, a report, and a page to type in.

Read it from top to bottom, after demo.py; every step is a function of leanrnn that works on runs of your own too.
"""

from __future__ import annotations

import importlib.util
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import leanrnn
from leanrnn.deploy import caller, in_turns, inputs_for, peak_of_fresh_process, quartiles, said, timed
from leanrnn.environment import environment
from leanrnn.errors import ExportError
from leanrnn.lab.disk import write_whole
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.onnx import export_language_model, perplexity_of_file
from leanrnn.lab.language.text import Text
from leanrnn.lab.report.page import html
from leanrnn.lab.report.story import read_stories
from leanrnn.lab.web.page import write_page
from leanrnn.lab.web.runtime import fetch

__all__ = ["deliver"]

SECONDS = 6.0
"""To spend on timing."""
EXTRAS = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "report": ("matplotlib",)}
"""Of leanrnn, and the packages they bring."""


@dataclass(frozen=True)
class File:
    """One that onnxruntime runs."""

    model: str
    bits: int
    path: Path

    @property
    def title(self) -> str:
        """Of its column."""
        return self.model if self.bits == 32 else f"{self.model}, {self.bits} bits"


def deliver(out: Path, text: Text, config: Config, prompt: str) -> list[str]:
    """Export, compress, time and show the runs ``dense`` and ``lean`` in ``out``; returns what to open. ::

    deliver(Path("leanrnn-demo"), text, CONFIGS["dense"], "this method returns")
    """
    if missing := _missing("onnx"):
        print(f"Nothing was exported: {missing}")
        return []
    files = _export(out, text, config)
    rows = _times(files)
    return [*_report(out, rows), *_page(out, files, prompt)]


# 1. Files. Both are run and compared with the model before they appear; the lean one is also written in eight bits.


def _export(out: Path, text: Text, config: Config) -> list[File]:
    dense, lean = (File(name, 32, out / f"{name}.onnx") for name in ("dense", "lean"))
    worst = max(export_language_model(out / f.model / "model.safetensors", f.path).difference for f in (dense, lean))
    print(f"Exported {dense.path} and {lean.path}: no more than {worst:.1e} off, at lengths never traced.")
    small = leanrnn.quantize(lean.path, evaluate=lambda p: perplexity_of_file(p, text, config.batch, config.window))
    print(f"In eight bits, {small.path}: validation perplexity {small.before:.2f} became {small.after:.2f}.")
    return [dense, lean, File("lean", 8, small.path)]


# 2. Times in onnxruntime, all files in turns: a word at a time, as one serves it, and many at once.


def _times(files: list[File]) -> list[dict[str, Any]]:
    one, many, threads = {"batch": 1, "time": 1}, {"batch": 10, "time": 30}, torch.get_num_threads()
    calls = {
        (file, sizes is many): caller("onnxruntime", file.path, inputs_for(said(file.path), sizes), count)
        for sizes, count in ((one, 1), (many, threads))
        for file in files
    }
    spent = in_turns(calls, SECONDS)
    rows = [_row(file, spent[file, True], many, threads) for file in files]
    table = Table("in onnxruntime", *(file.title for file in files))
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("bytes of the file", *(f"{row['file_bytes']:,}" for row in rows))
    table.add_row("ms for one word", *(f"{quartiles(spent[file, False])[1] * 1e3:.3f}" for file in files))
    table.add_row(f"ms for {math.prod(many.values())} words", *(f"{row['milliseconds']:.2f}" for row in rows))
    table.add_row("MB of memory", *(f"{row['peak_bytes'] / 1e6:.0f}" for row in rows))
    Console().print(table)
    return rows


def _row(file: File, spent: list[float], sizes: dict[str, int], threads: int) -> dict[str, Any]:
    """As ``leanrnn measure`` would have it."""
    peak = peak_of_fresh_process("onnxruntime", file.path, threads, sizes)
    name = "onnxruntime" if file.bits == 32 else f"int{file.bits}"
    return timed(file.model, name, threads, spent, file.path.stat().st_size, peak)


# 3. Pages to look at.


def _report(out: Path, rows: list[dict[str, Any]]) -> list[str]:
    if missing := _missing("report"):
        print(f"No report: {missing}")
        return []
    page, runs = out / "report.html", [out / "dense", out / "lean"]
    command = shlex.join(["leanrnn", "report", *map(str, runs), "--out", str(page)])
    write_whole(page, html(read_stories(runs), rows, environment(), command))
    return [f"{page}: how both were trained, and what is left of the weights."]


def _page(out: Path, files: list[File], prompt: str) -> list[str]:
    print("A page that runs the lean model in a browser; the first time npm fetches what runs it ...", flush=True)
    try:
        runtime = fetch()
    except ExportError as error:
        print(f"No page to type in: {error}")
        return []
    dense, _, lean = (file.path for file in files)
    page = write_page(dense, lean, out / "complete.html", prompt=f"{prompt} ", runtime=runtime)
    return [f"{page}: type, and the lean model goes on, in your browser."]


def _missing(extra: str) -> str | None:
    """A sentence, if packages of an extra are not there."""
    names = ", ".join(name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None)
    return f"{names} not installed. Install with: pip install leanrnn[{extra}]" if names else None
