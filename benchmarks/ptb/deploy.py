"""What the runs of `ptb train` are worth where they are deployed: exported, in eight bits, judged and timed everywhere.

python -m benchmarks ptb deploy small               # all runs in runs/ that have ended, nothing else running
python -m benchmarks ptb deploy small dense lean    # these; the first is what the others are compared with

Every figure comes from ``leanrnn export``, ``quantize`` and ``measure``. Penn Treebank is found through LEANRNN_DATA.
"""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from benchmarks.common import DOCS, RESULTS, printed, put, table, write
from benchmarks.ptb.runs import RUNS, SIZES

INPUTS = {"a word": (1, 1), "300 words": (10, 30)}
"""Sequences and steps."""


def files(folder: Path, run: Path, data: str) -> dict[str, Any]:
    """Export a run, make eight bits of it, and tell the perplexity of both."""
    exported = folder / f"{run.name}.onnx"
    written = printed("export", str(run), "--out", str(exported))
    small = printed("quantize", str(exported), "--data", data)
    light = printed("quantize", str(exported), "--data", data, "--weights-only", "--out", str(folder / "light.onnx"))
    return {
        "difference": written["difference"],
        "bytes": {"float32": small["bytes_before"], "int8": small["bytes_after"], "weights": light["bytes_after"]},
        "perplexity": {"float32": small["before"], "int8": small["after"], "weights": light["after"]},
    }


def times(run: Path, against: Path, batch: int, steps: int, seconds: float) -> list[dict[str, Any]]:
    """Of a run and the one it is compared with, in every runtime, with one thread and with all."""
    words = ["--batch", str(batch), "--steps", str(steps), "--seconds", str(seconds)]
    found = printed("measure", str(run), "--against", str(against), *words)
    return [row | {"model": Path(row["model"]).name} for row in found["measured"]]


def quality(found: dict[str, Any]) -> str:
    """Size and perplexity of every run."""
    head = ["run", "MB", "int8 MB", "perplexity", "int8", "int8 weights alone"]
    rows = []
    for name, each in found.items():
        size, score = each["bytes"], each["perplexity"]
        rows.append([
            name, f"{size['float32'] / 1e6:.2f}", f"{size['int8'] / 1e6:.2f}",
            *(f"{score[kind]:.2f}" for kind in ("float32", "int8", "weights")),
        ])  # fmt: skip
    return table(head, rows)


def speed(rows: list[dict[str, Any]]) -> str:
    """Milliseconds of both models side by side."""
    head = ["input", "runtime", "threads", "dense ms", "lean ms (quartiles)", "times faster", "dense MB", "lean MB"]
    lines = []
    for row in (each for each in rows if "ratio" in each):
        keys = ("input", "runtime", "threads")
        other = next(r for r in rows if "ratio" not in r and all(r[key] == row[key] for key in keys))
        low, high = row["quartiles"]
        lines.append([
            row["input"], row["runtime"], str(row["threads"]), f"{other['milliseconds']:.3f}",
            f"{row['milliseconds']:.3f} ({low:.3f} to {high:.3f})", f"{row['ratio']:.2f}",
            f"{other['peak_bytes'] / 1e6:.0f}", f"{row['peak_bytes'] / 1e6:.0f}",
        ])  # fmt: skip
    return table(head, lines)


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write, and put the tables into the page."""
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("runs", nargs="*", help="names of runs; all that have ended if none is given")
    parser.add_argument("--seconds", type=float, default=30.0, help="of timing, for each kind of input")
    options = parser.parse_args(words)
    folders = {name: RUNS / f"{options.size}-{name}" for name in options.runs or SIZES[options.size]}
    ended = {name: folder for name, folder in folders.items() if (folder / "result.json").exists()}
    if "dense" not in ended or "lean" not in ended:
        command = f"python -m benchmarks ptb train {options.size}"
        parser.error(f"the runs dense and lean have not ended. Train them: {command}")
    with tempfile.TemporaryDirectory() as folder:
        judged = {name: files(Path(folder), run, os.environ["LEANRNN_DATA"]) for name, run in ended.items()}
    timed = [
        {"input": name} | row
        for name, (batch, steps) in INPUTS.items()
        for row in times(ended["lean"], ended["dense"], batch, steps, options.seconds)
    ]
    write(RESULTS / f"ptb_{options.size}_deploy.json", {"judged": judged, "timed": timed})
    put({DOCS / "reproduce.md": f"{quality(judged)}\n\n{speed(timed)}"}, f"deploy-{options.size}")
