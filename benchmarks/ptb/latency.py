"""Milliseconds of 300 words in onnxruntime, for every run of `ptb train`: a column of its tables.

python -m benchmarks ptb latency gru-small      # all runs of results/ptb_gru_small.json; nothing else running

Models have the widths that the runs ended with, and random weights: time does not depend on them. They are
timed in turns, with one thread.
"""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import leanrnn
from benchmarks.common import environment, spread
from benchmarks.ptb.runs import SIZES, results, write_page
from leanrnn.deploy import File, in_turns
from leanrnn.environment import hold_memory
from leanrnn.lab import Config
from leanrnn.lab.language.model import language_model
from leanrnn.lab.language.onnx import export_language_model

WORDS, BATCH, STEPS = 10_000, 10, 30


def exported(folder: Path, name: str, run: dict[str, Any], words: int) -> Path:
    """A model as the run left it, but for the values of its weights, as a file of ONNX."""
    config = replace(Config.from_json(run["config"]), embedding=run["embedding"], widths=tuple(run["widths"]))
    about = {"config": config.to_json(), "words": list(map(str, range(words)))}
    path = folder / f"{name}.safetensors"
    leanrnn.save(language_model(config, words).eval(), path, about=about)
    return export_language_model(path, path.with_suffix(".onnx")).path


def measured(runs: dict[str, Any], words: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Of every run; how many times faster than the dense one, too."""
    with tempfile.TemporaryDirectory() as folder:
        calls: dict[str, Callable[[], Any]] = {}
        for name, run in runs.items():
            path = exported(Path(folder), name, run, words)
            calls[name] = File(path, "onnxruntime", {"batch": BATCH, "time": STEPS}).caller(1)
        spent = {name: spread([1e3 * each for each in times]) for name, times in in_turns(calls, seconds).items()}
    found = {
        name: {"milliseconds": each["median"], "quartiles": [each["q25"], each["q75"]]} for name, each in spent.items()
    }
    for name in found.keys() - {"dense"}:
        found[name]["ratio"] = spent["dense"]["median"] / spent[name]["median"]
    return found


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write down, and write the page again."""
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing, all together")
    options = parser.parse_args(words)
    hold_memory()
    path = results(options.size)
    known = json.loads(path.read_text())
    if "dense" not in known["runs"]:
        command = f"python -m benchmarks ptb train {options.size} dense"
        parser.error(f"there is no dense run to compare with. Make it: {command}")
    for name, found in measured(known["runs"], WORDS, options.seconds).items():
        known["runs"][name]["onnxruntime"] = found
        print(f"{name:<16} {found['milliseconds']:.2f} ms", flush=True)
    known["latency_environment"] = environment() | {"threads": 1}
    path.write_text(json.dumps(known, indent=1) + "\n")
    write_page(options.size)
