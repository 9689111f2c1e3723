"""What the demo's two runs become: files that run without PyTorch, their times, a report, and a page to type in.

Read it from top to bottom, after demo.py; every step is a function of leanrnn that works on runs of your own too.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import leanrnn
from leanrnn.deploy import ONNX, RUNTIMES, Extra, File, in_turns, quartiles, timed
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
ONE, MANY = {"batch": 1, "time": 1}, {"batch": 10, "time": 30}
"""A word at a time, as one serves it, and many at once."""


@dataclass(frozen=True)
class Column:
    """Of the table: a file, and the runtime it is for."""

    model: str
    runtime: str
    path: Path

    @property
    def title(self) -> str:
        """What stands above it."""
        bits = RUNTIMES[self.runtime].bits
        return self.model if bits == 32 else f"{self.model}, {bits} bits"


def deliver(out: Path, text: Text, config: Config, prompt: str) -> list[str]:
    """Export, compress, time and show the runs ``dense`` and ``lean`` in ``out``; returns what to open. ::

    deliver(Path("leanrnn-demo"), text, CONFIGS["dense"], "this method returns")
    """
    if ONNX.missing:
        print(f"Nothing was exported: {ONNX.missing}")
        return []
    files = _export(out, text, config)
    rows = _times(files)
    return [*_report(out, rows), *_page(out, files, prompt)]


# 1. Files. Both are run and compared with the model before they appear; the lean one is also written in eight bits.


def _export(out: Path, text: Text, config: Config) -> list[Column]:
    dense, lean = (Column(name, "onnxruntime", out / f"{name}.onnx") for name in ("dense", "lean"))
    worst = max(export_language_model(out / f.model / "model.safetensors", f.path).difference for f in (dense, lean))
    print(f"Exported {dense.path} and {lean.path}: no more than {worst:.1e} off, at lengths never traced.")
    small = leanrnn.quantize(
        lean.path, evaluate=lambda path: perplexity_of_file(path, text, config.batch, config.window), seconds=0
    )
    print(f"In eight bits, {small.path}: validation perplexity {small.before:.2f} became {small.after:.2f}.")
    return [dense, lean, Column("lean", "int8", small.path)]


# 2. Times in onnxruntime, all files in turns: a word at a time, as one serves it, and many at once.


def _times(files: list[Column]) -> list[dict[str, Any]]:
    threads = torch.get_num_threads()
    calls = {
        (file, sizes is MANY): File(file.path, file.runtime, sizes).caller(count)
        for sizes, count in ((ONE, 1), (MANY, threads))
        for file in files
    }
    spent = in_turns(calls, SECONDS)
    rows = [_row(file, spent[file, True], threads) for file in files]
    table = Table("in onnxruntime", *(file.title for file in files))
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("bytes of the file", *(f"{row['file_bytes']:,}" for row in rows))
    table.add_row("ms for one word", *(f"{quartiles(spent[file, False])[1] * 1e3:.3f}" for file in files))
    table.add_row(f"ms for {math.prod(MANY.values())} words", *(f"{row['milliseconds']:.2f}" for row in rows))
    table.add_row("MB of memory", *(f"{row['peak_bytes'] / 1e6:.0f}" for row in rows))
    Console().print(table)
    return rows


def _row(column: Column, spent: list[float], threads: int) -> dict[str, Any]:
    """As ``leanrnn measure`` would have it."""
    file = File(column.path, column.runtime, MANY)
    return timed(column.model, column.runtime, threads, spent, file.bytes, file.peak_bytes(threads))


# 3. Pages to look at.


def _report(out: Path, rows: list[dict[str, Any]]) -> list[str]:
    if missing := Extra("report", ("matplotlib",)).missing:
        print(f"No report: {missing}")
        return []
    page, runs = out / "report.html", [out / "dense", out / "lean"]
    command = shlex.join(["leanrnn", "report", *map(str, runs), "--out", str(page)])
    write_whole(page, html(read_stories(runs), rows, environment(), command))
    return [f"{page}: how both were trained, and what is left of the weights."]


def _page(out: Path, files: list[Column], prompt: str) -> list[str]:
    print("A page that runs the lean model in a browser; the first time npm fetches what runs it ...", flush=True)
    try:
        runtime = fetch()
    except ExportError as error:
        print(f"No page to type in: {error}")
        return []
    dense, _, lean = (file.path for file in files)
    page = write_page(dense, lean, out / "complete.html", prompt=f"{prompt} ", runtime=runtime)
    return [f"{page}: type, and the lean model goes on, in your browser."]
