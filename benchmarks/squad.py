"""The paper's third experiment: question answering with BiDAF on SQuAD v1.1. ::

    python benchmarks/squad.py                    # every run that has no result yet
    python benchmarks/squad.py dense lean         # those
    python benchmarks/squad.py --steps 4000       # all of them scaled to so many steps
    python benchmarks/squad.py --precision bfloat16   # in half of the bits, where the processor has them
    python benchmarks/squad.py --latency          # times of batch 1 of runs that have ended; nothing else running
    python benchmarks/squad.py --deploy lean      # those exported, in eight bits too, and judged in onnxruntime
    python benchmarks/squad.py --table            # only write the page again

Each run is a `leanrnn train` command and goes on where it was interrupted, so several sittings are one run; the result
is written down when it ends. SQuAD and GloVe are found through LEANRNN_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import DOCS, RESULTS, ROOT, environment, printed, put, table

import leanrnn
from leanrnn.lab.squad.job import example, load, vocabulary_of

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
LENGTH = 146
"""Mean number of tokens of a text of the development set."""
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
    kept = ("exact", "f1", "widths", "weights", "weights_without_embeddings", "difference", "seconds")
    keys = ("step", "loss", "exact", "f1", "widths", "alive", "seconds")
    return {
        "command": shlex.join(words),
        "config": config["config"],
        **{key: result[key] for key in kept},
        "evaluations": [{key: line[key] for key in keys} for line in lines if line["kind"] == "evaluation"],
        "environment": environment() | {"threads": THREADS},
    }


def speed(folder: Path) -> dict[str, Any]:
    """Of one question, and how much of it goes into LSTMs."""
    share = lstm_share(folder / "model.safetensors")
    return {"latency": latency(folder), "lstm_share": share, "latency_environment": environment()}


def lstm_share(path: Path, repeats: int = 20) -> float:
    """Part of torch's time for one question that is spent in the kernels of the LSTMs."""
    model, inputs = load(path).eval(), example(vocabulary_of(leanrnn.about(path)), 1, LENGTH, 11)
    torch.set_num_threads(1)
    with torch.no_grad():
        model(*inputs)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(repeats):
                model(*inputs)
    spent = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return sum(time for name, time in spent.items() if "mkldnn_rnn" in name) / sum(spent.values())


def latency(folder: Path) -> dict[str, float]:
    """Milliseconds of one question about a text of the mean length of the development set, by runtime."""
    words = f"--batch 1 --steps {LENGTH} --threads 1 --seconds 10 --runtimes".split()
    found = printed("measure", str(folder), *words, *RUNTIMES)
    return {row["runtime"]: row["milliseconds"] for row in found["measured"]}


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
        "weights", "ms, batch 1: torch, onnxruntime, int8", "of it in LSTMs", "steps", "examples a second",
    ]  # fmt: skip
    rows = [[f"paper, {n}", "", f"{em:.2f}", f"{f1:.2f}", w, mb, ms, "", "10000", ""] for n, em, f1, w, mb, ms in PAPER]
    for name, found in runs.items():
        config, steps = found["config"], str(found["config"]["steps"])
        widths = ", ".join(str(n) for key, n in found["widths"].items() if not key.startswith("contextual"))
        times = ", ".join(f"{found['latency'][key]:.1f}" for key in RUNTIMES) if "latency" in found else "not measured"
        rows.append([
            name, f"{config['strength']:g}", f"{found['exact']:.2f}", f"{found['f1']:.2f}", widths,
            f"{found['weights'] / 1e6:.2f} M", times, f"{found['lstm_share']:.0%}" if "lstm_share" in found else "",
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


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="names of runs; all there are to do if none is given")
    parser.add_argument("--steps", type=int, help="updates of every run; the recipe's own if not given")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="the same for all runs")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--table", action="store_true", help="only write the page again")
    only.add_argument("--latency", action="store_true", help="only measure the times of runs that have ended")
    only.add_argument("--deploy", action="store_true", help="only export runs that have ended, and judge the files")
    options = parser.parse_args()
    if unknown := set(options.runs) - RECIPES.keys():
        parser.error(f"no run is called {', '.join(sorted(unknown))}. There are {', '.join(RECIPES)}.")
    done = written_down()
    if options.latency or options.deploy:
        for name in options.runs or [name for name in done if (RUNS / f"squad-{name}").exists()]:
            folder = RUNS / f"squad-{name}"
            write_down(name, done[name] | (speed(folder) if options.latency else {"deployed": deployed(folder)}))
    elif not options.table:
        for name in options.runs or [name for name in RECIPES if name not in done]:
            write_down(name, train(name, options.steps, options.precision))
    write_page()


if __name__ == "__main__":
    main()
