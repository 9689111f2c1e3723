"""The paper's third experiment: question answering with BiDAF on SQuAD v1.1. ::

    python -m benchmarks squad train                    # every run that has no result yet
    python -m benchmarks squad train dense lean         # those
    python -m benchmarks squad train --steps 4000       # all of them scaled to so many steps
    python -m benchmarks squad train --precision bfloat16   # in half of the bits, where the processor has them
    python -m benchmarks squad train --table            # only write the page again

Each run is a `leanrnn train` command and goes on where it was interrupted, so several sittings are one run; the result
is written down when it ends. SQuAD and GloVe are found through LEANRNN_DATA.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from typing import Any

from benchmarks.common import ROOT, environment
from benchmarks.squad.runs import RECIPES, RUNS, THREADS, asked, write_down, write_page, written_down


def command(name: str, steps: int | None, precision: str) -> list[str]:
    """The command line of a run, with its schedule scaled if it is to be shorter; so is the average's memory, a tenth
    of the paper's steps, since what it kept of the first weights would count in the end."""
    recipe, more = RECIPES[name]
    words = ["leanrnn", "train", recipe, "--out", f"runs/squad-{name}", "--threads", str(THREADS), *more]
    words += [] if precision == "float32" else ["--precision", precision]
    if steps is None:
        return words
    scaled = ["--steps", str(steps), "--evaluate", str(max(1, steps // 10)), "--judged", "2000"]
    scaled += ["--average", f"{1 - 10 / max(steps, 20):.4f}"]
    return [*words, *scaled, *(["--penalised", str(steps * 6 // 10)] if recipe.endswith("-lean") else [])]


def train(name: str, steps: int | None, precision: str) -> dict[str, Any]:
    """Run it, or what is left of it; its result, its course, and the command."""
    words = command(name, steps, precision)
    subprocess.run([sys.executable, "-m", "leanrnn", *words[1:]], cwd=ROOT, check=True)
    folder = RUNS / f"squad-{name}"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result, config = (json.loads((folder / file).read_text()) for file in ("result.json", "config.json"))
    kept = ("exact", "f1", "widths", "trained_weights", "weights_without_embeddings", "difference", "seconds")
    keys = ("step", "loss", "exact", "f1", "widths", "alive", "seconds")
    return {
        "command": shlex.join(words),
        "config": config["config"],
        **{key: result[key] for key in kept},
        "evaluations": [{key: line[key] for key in keys} for line in lines if line["kind"] == "evaluation"],
        "environment": environment() | {"threads": THREADS},
    }


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Run what was asked for."""
    parser.add_argument("--steps", type=int, help="updates of every run; the recipe's own if not given")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="the same for all runs")
    parser.add_argument("--table", action="store_true", help="only write the page again")
    done = written_down()
    options = asked(parser, words, [name for name in RECIPES if name not in done])
    for name in [] if options.table else options.runs:
        write_down(name, train(name, options.steps, options.precision))
    write_page()
