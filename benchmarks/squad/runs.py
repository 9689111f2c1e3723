"""The runs of question answering: what each is, where its result is written down, and the tables of all of them."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from benchmarks.common import DOCS, RESULTS, ROOT, put, table

RUNS = ROOT / "runs"
PATH = RESULTS / "squad.json"
THREADS = 1  # two runs beside each other use two cores best
RECIPES: dict[str, tuple[str, list[str]]] = {
    "dense": ("squad-bidaf", []),
    "dense-longer": ("squad-bidaf", ["--start", "runs/squad-dense"]),
    "finetune": ("squad-bidaf-iss-finetune", ["--start", "runs/squad-dense"]),
    "finetune-strong": ("squad-bidaf-iss-finetune", ["--start", "runs/squad-dense", "--strength", "2e-3"]),
    "iss-weak": ("squad-bidaf-iss", ["--strength", "5e-4"]),
    "iss": ("squad-bidaf-iss", []),
    "lean": ("squad-bidaf-lean", []),
    "lean-strong": ("squad-bidaf-lean", ["--strength", "2e-3"]),
    "lean-finetune": ("squad-bidaf-lean", ["--start", "runs/squad-dense", "--strength", "2e-3"]),
}
"""Name of a run: the recipe, and what is different from it."""
RUNTIMES = ("torch", "onnxruntime", "int8")
PAPER = [
    ("dense", 67.98, 77.85, "100, 100, 100, 100, 100, 100", "2.69 M", "6.20"),
    ("fine-tuned", 67.21, 76.71, "100, 95, 78, 82, 71, 52", "2.08 M", "5.79"),
    ("fine-tuned", 66.59, 76.40, "84, 90, 38, 46, 34, 21", "1.48 M", "4.52"),
    ("fine-tuned", 65.29, 75.47, "54, 47, 22, 30, 18, 12", "1.03 M", "3.54"),
    ("fine-tuned", 64.81, 75.22, "52, 50, 19, 26, 15, 12", "1.01 M", "3.51"),
    ("from scratch", 67.36, 77.16, "87, 81, 87, 92, 74, 96", "2.29 M", "5.83"),
    ("from scratch", 66.32, 76.22, "51, 33, 42, 58, 37, 26", "1.17 M", "4.46"),
    ("from scratch", 65.36, 75.78, "20, 33, 40, 38, 31, 16", "0.95 M", "3.59"),
    ("from scratch", 64.60, 74.99, "23, 22, 35, 35, 25, 14", "0.88 M", "2.74"),
]
"""Its tables 3 and 4: exact match, F1, widths, weights, milliseconds."""


def written_down() -> dict[str, Any]:
    """The results of all runs so far, in the order they are defined in."""
    runs = json.loads(PATH.read_text())["runs"] if PATH.exists() else {}
    return {name: runs[name] for name in RECIPES if name in runs}


def write_down(name: str, found: dict[str, Any]) -> None:
    """Add a run to the results; those of other runs stay."""
    PATH.write_text(json.dumps({"runs": written_down() | {name: found}}, indent=1) + "\n")


def score_table(runs: dict[str, Any]) -> str:
    """Scores, widths, sizes and times of every run, under those of the paper."""
    head = [
        "run", "strength", "exact match", "F1", "widths (modelling 1, 2, output; forwards and backwards each)",
        "trained weights", "ms, batch 1: torch, onnxruntime, int8", "of it in LSTMs", "steps", "examples a second",
    ]  # fmt: skip
    rows = [[f"paper, {n}", "", f"{em:.2f}", f"{f1:.2f}", w, mb, ms, "", "10000", ""] for n, em, f1, w, mb, ms in PAPER]
    for name, found in runs.items():
        config, steps = found["config"], str(found["config"]["steps"])
        widths = ", ".join(str(n) for key, n in found["widths"].items() if not key.startswith("contextual"))
        times = ", ".join(f"{found['latency'][key]:.1f}" for key in RUNTIMES) if "latency" in found else "not measured"
        rows.append([
            name, f"{config['strength']:g}", f"{found['exact']:.2f}", f"{found['f1']:.2f}", widths,
            f"{found['trained_weights'] / 1e6:.2f} M", times,
            f"{found['lstm_share']:.0%}" if "lstm_share" in found else "",
            f"{runs['dense']['config']['steps']} + {steps}" if "--start" in found["command"] else steps,
            f"{config['steps'] * config['batch'] / found['seconds']:.0f}",
        ])  # fmt: skip
    return table(head, rows)


def deployed_table(runs: dict[str, Any]) -> str:
    """Bytes and F1 of the exported files."""
    head = ["run", "MB", "int8 MB", "F1 in onnxruntime", "int8"]
    rows = []
    for name, found in runs.items():
        if "deployed" in found:
            size, f1 = found["deployed"]["bytes"], found["deployed"]["f1"]
            kinds = ("float32", "int8")
            rows.append([name, *(f"{size[kind] / 1e6:.1f}" for kind in kinds), *(f"{f1[kind]:.2f}" for kind in kinds)])
    return table(head, rows)


def write_page() -> None:
    """The tables in docs/reproduce.md, with the commands, from what was written down."""
    runs = written_down()
    commands = "\n".join(found["command"] for found in runs.values())
    put({DOCS / "reproduce.md": f"{score_table(runs)}\n\n```text\n{commands}\n```"}, "squad")
    put({DOCS / "reproduce.md": deployed_table(runs)}, "squad-deployed")


def asked(parser: ArgumentParser, words: list[str], among: Iterable[str]) -> Namespace:
    """What the command line says, with the runs it names; without names, all that are ``among``."""
    parser.add_argument("runs", nargs="*", help="names of runs; all there are to do if none is given")
    options = parser.parse_args(words)
    if unknown := set(options.runs) - RECIPES.keys():
        parser.error(f"no run is called {', '.join(sorted(unknown))}. There are {', '.join(RECIPES)}.")
    options.runs = options.runs or list(among)
    return options


def ended() -> list[str]:
    """Names of runs that have a result, and whose folder is still there."""
    return [name for name in written_down() if (RUNS / f"squad-{name}").exists()]
