"""Trains a model in a framework twice: once from beginning to end, once killed by SIGKILL while it shrinks, and gone on
with. Both have to end with the same weights, bit for bit. Writes results/frameworks.json and a table in
docs/frameworks.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from benchmarks.common import DOCS, RESULTS, ROOT, put, table, told

HERE = Path(__file__).parent
RESULT = RESULTS / "frameworks.json"
AFTER = {"sb3-contrib"}
"""Where a model is shrunk after its training, so that no checkpoint is of other widths."""
KILLED_AT = 0.55
"""What part of the steps is done when it is killed: the last checkpoint is of the time in which components go."""


def packages(name: str) -> dict[str, str]:
    """The packages that a framework's file of requirements names, and their versions here."""
    lines = (HERE / "requirements" / f"{name}.txt").read_text().splitlines()
    return {line.partition("==")[0]: version(line.partition("==")[0]) for line in lines if "==" in line}


def run(name: str, folder: Path, last: int = 0) -> dict[str, Any] | None:
    """The page's programs in a process of their own; nothing if it was killed with a step, as was asked for."""
    folder.mkdir(exist_ok=True)
    page = DOCS / "frameworks" / f"{name}.md"
    command = [sys.executable, "-m", "benchmarks.frameworks.worker", str(page), str(folder), str(last)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
    log = folder / "log.txt"
    with log.open("a") as out:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=out, stderr=out, check=False)
    if last and done.returncode == -9:
        return None
    if done.returncode:
        sys.exit(f"{name} failed:\n{log.read_text()[-4000:]}")
    found: dict[str, Any] = json.loads((folder / "end.json").read_text())
    return found


def same(one: Path, other: Path) -> bool:
    """Whether two files have the same tensors, bit for bit."""
    a, b = load_file(one), load_file(other)
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a)


def prove(name: str) -> dict[str, Any]:
    """What was proven of a framework; ends with a message if something is not so."""
    with tempfile.TemporaryDirectory() as kept:
        whole, parts = Path(kept, "whole"), Path(kept, "parts")
        first = run(name, whole)
        assert first is not None
        sizes, last = first["sizes"], round(KILLED_AT * first["steps"])
        check(name, sizes[-1] < sizes[0], "nothing was removed")
        if name in AFTER:
            return proven(name, first, {"dense": sizes[0], "end": sizes[-1]})
        check(name, run(name, parts, last) is None, "was not killed")
        again = run(name, parts)
        assert again is not None
        resumed = again["sizes"][0]
        check(name, again["steps"] < first["steps"], "began anew instead of going on")
        check(name, sizes[-1] < resumed < sizes[0], f"did not go on in the middle: {sizes[0]}, {resumed}, {sizes[-1]}")
        check(name, same(whole / "end.safetensors", parts / "end.safetensors"), "ended with other weights")
    weights = {"dense": sizes[0], "resumed": resumed, "end": sizes[-1]}
    return proven(name, again | {"steps": first["steps"]}, weights) | {"killed_at": last}


def proven(name: str, run: dict[str, Any], weights: dict[str, int]) -> dict[str, Any]:
    """What is written down of a framework."""
    kept = {"steps": run["steps"], "weights": weights, "exported": run["exported"]}
    return {"packages": packages(name)} | kept


def check(name: str, true: bool, message: str) -> None:
    """End the program with a message if something is not as it has to be."""
    if not true:
        sys.exit(f"{name}: {message}")


def rows(found: dict[str, Any]) -> list[list[str]]:
    """The table of docs/frameworks.md."""
    return [
        [
            f"[{name}](frameworks/{name}.md)",
            ", ".join(f"{package} {number}" for package, number in one["packages"].items()),
            f"{one['weights']['dense']:,} → {one['weights']['end']:,}",
            f"step {one['killed_at']} of {one['steps']}, same bits" if "killed_at" in one else "shrunk after training",
            one["exported"],
        ]
        for name, one in sorted(found.items())
    ]


HEAD = ["framework", "versions", "weights", "killed and resumed", "exported"]


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Prove the frameworks named, those whose packages this environment has."""
    names = sorted(path.stem for path in (HERE / "requirements").glob("*.txt"))
    parser.add_argument("name", nargs="+", choices=names)
    options = parser.parse_args(words)
    for name in options.name:
        found_now = prove(name)
        before = json.loads(RESULT.read_text()) if RESULT.exists() else {"frameworks": {}}
        found = before["frameworks"] | {name: told(found_now)}
        RESULT.write_text(json.dumps({"frameworks": dict(sorted(found.items()))}, indent=2) + "\n")
        put({DOCS / "frameworks.md": table(HEAD, rows(found))}, "frameworks")
        print(
            f"{name}: {proven['weights']['dense']:,} → {proven['weights']['end']:,} weights, resumed to the same bits"
        )
