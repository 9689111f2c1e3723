"""The runs of `squad train` that have ended as files: exported, in eight bits too, and judged in onnxruntime. ::

    python -m benchmarks squad deploy lean      # this run; all that have ended, if none is named

SQuAD and GloVe are found through LEANRNN_DATA.
"""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from benchmarks.common import printed
from benchmarks.squad.runs import RUNS, asked, ended, write_down, write_page, written_down


def deployed(run: Path) -> dict[str, Any]:
    """A run as a file for onnxruntime, and in eight bits: bytes of both, and their F1 of all development questions."""
    with tempfile.TemporaryDirectory() as folder:
        exported = str(Path(folder) / "model.onnx")
        written = printed("export", str(run), "--out", exported)
        small = printed("quantize", exported, "--data", os.environ["LEANRNN_DATA"])
    return {
        "difference": written["difference"],
        "bytes": {"float32": small["bytes_before"], "int8": small["bytes_after"]},
        "f1": {"float32": small["before"], "int8": small["after"]},
    }


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Export, judge, write down, and write the page again."""
    for name in asked(parser, words, ended()).runs:
        write_down(name, written_down()[name] | {"deployed": deployed(RUNS / f"squad-{name}")})
    write_page()
