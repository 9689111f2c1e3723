"""Penn Treebank: the runs of the paper's first two experiments and ours, one after the other, each with its command.

python -m benchmarks ptb train small              # those that results/ptb_small.json has not yet, in order
python -m benchmarks ptb train small iss lean     # these
python -m benchmarks ptb train small --table      # only the table of docs/reproduce.md
python -m benchmarks ptb train rhn-small          # Recurrent Highway Network; or gru-small, gru-medium, rnn-small
python -m benchmarks ptb train rhn-small direct --widths 120   # a dense model of the width that was learned

Every run is a ``leanrnn train`` of its own in runs/, which goes on where it was interrupted; the result is written down
when it ends. Penn Treebank is found through LEANRNN_DATA.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from itertools import pairwise
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from benchmarks.common import ROOT, environment
from benchmarks.ptb.runs import HALF, RUNS, SIZES, THREADS, dense_of, results, write_page


def command(size: str, name: str, widths: list[int]) -> list[str]:
    """The command line of a run; widths are for a direct design, with the embedding first if there is one more."""
    recipe, more = SIZES[size][name]
    if widths:
        first = [] if len(widths) == len(dense_of(size).widths) else widths[:1]
        first = widths if dense_of(size).tied else first
        layers = widths[-len(dense_of(size).widths) :]
        half = HALF if HALF[-1] in more else []
        more = [*half, *(["--embedding", str(first[0])] if first else []), "--widths", *map(str, layers)]
    elif name == "direct" and "--widths" not in more:
        raise SystemExit(f"{size} direct: give the widths that another run learned with --widths.")
    return ["leanrnn", "train", recipe, "--out", f"runs/{size}-{name}", "--threads", str(THREADS), *more]


def train(size: str, name: str, widths: list[int]) -> dict[str, Any]:
    """Run it, or what is left of it; its result, its course, and the command."""
    words = command(size, name, widths)
    subprocess.run([sys.executable, "-m", "leanrnn", *words[1:]], cwd=ROOT, check=True)
    folder = RUNS / f"{size}-{name}"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    result, config = (json.loads((folder / name).read_text()) for name in ("result.json", "config.json"))
    kept = ("valid", "test", "test_in_batches", "embedding", "widths", "weights", "difference", "valid_in_one")
    return {
        "command": shlex.join(words),
        "config": config["config"],
        **{key: result[key] for key in kept if key in result},
        **({"zeros": zeros(folder / "model.safetensors")} if config["config"]["penalty"] == "l1" else {}),
        "epochs": [{key: line[key] for key in ("rate", "train", "valid", "widths", "alive")} for line in epochs],
        "course": course([line for line in lines if line["kind"] == "interval"]),
    }


def zeros(path: Path) -> dict[str, float]:
    """Part of the numbers of every matrix that is zero."""
    return {name: round(float((w == 0).float().mean()), 3) for name, w in load_file(path).items() if w.dim() == 2}


def course(intervals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps spent at every size of the model, with the penalty and without it."""
    parts: list[dict[str, Any]] = []
    for before, line in pairwise([{"step": 0}, *intervals]):
        here = {"sizes": list(line["widths"].values()), "penalised": line["strength"] > 0}
        if not parts or any(parts[-1][key] != here[key] for key in here):
            parts.append(here | {"steps": 0})
        parts[-1]["steps"] += line["step"] - before["step"]
    return parts


def write_down(size: str, name: str, found: dict[str, Any]) -> None:
    """Add a run to the results; those of other runs stay."""
    path = results(size)
    known = json.loads(path.read_text()) if path.exists() else {"runs": {}}
    known["runs"][name] = found | {"environment": environment() | {"threads": THREADS}}
    path.write_text(json.dumps(known, indent=1) + "\n")


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Run what was asked for."""
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("runs", nargs="*", help="names of runs; all that have no result yet if none is given")
    parser.add_argument("--widths", type=int, nargs="+", default=[], help="of a direct design, embedding first")
    parser.add_argument("--table", action="store_true", help="only write the page again")
    options = parser.parse_args(words)
    path = results(options.size)
    if unknown := set(options.runs) - SIZES[options.size].keys():
        parser.error(f"no run is called {', '.join(sorted(unknown))}. There are {', '.join(SIZES[options.size])}.")
    done = json.loads(path.read_text())["runs"] if path.exists() else {}
    left = [name for name in SIZES[options.size] if name not in done]
    for name in [] if options.table else options.runs or left:
        write_down(options.size, name, train(options.size, name, options.widths))
    write_page(options.size)
