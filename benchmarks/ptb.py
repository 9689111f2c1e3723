"""Penn Treebank: the runs of the paper's first two experiments and ours, one after the other, each with its command.

python benchmarks/ptb.py small              # those that results/ptb_small.json has not yet, in order
python benchmarks/ptb.py small iss lean     # these
python benchmarks/ptb.py small --table      # only the table of docs/reproduce.md
python benchmarks/ptb.py rhn-small          # Recurrent Highway Network; or gru-small, gru-medium, rnn-small
python benchmarks/ptb.py rhn-small direct --widths 120   # a dense model of the width that was learned

Every run is a ``leanrnn train`` of its own in runs/, which goes on where it was interrupted; the result is written down
when it ends. Penn Treebank is found through LEANRNN_DATA.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from common import DOCS, RESULTS, ROOT, environment, put
from safetensors.torch import load_file

from leanrnn.lab import Config, named
from leanrnn.lab.language.model import GATES

RUNS = ROOT / "runs"
Runs = dict[str, tuple[str, list[str]]]
HALF = ["--precision", "bfloat16"]
"""Products of matrices in half of the bits: faster where a processor has them; `dense-bfloat16` tells what it costs."""
COMPACT = ["--compact", "200"]
"""What is dead leaves while training, for the sake of time; unlike in the paper it cannot come back."""
SMALL: Runs = {
    "dense": ("ptb-lstm-small", []),
    "dense-bfloat16": ("ptb-lstm-small", HALF),
    "iss": ("ptb-lstm-small-iss", []),
    "iss-strong": ("ptb-lstm-small-iss", ["--strength", "5e-3"]),
    "iss-stronger": ("ptb-lstm-small-iss", ["--strength", "8e-3", *HALF]),
    "lean-weak": ("ptb-lstm-small-lean", ["--strength", "4e-3"]),
    "lean": ("ptb-lstm-small-lean", []),
    "lean-strong": ("ptb-lstm-small-lean", ["--strength", "9e-3"]),
    "lean-kept": ("ptb-lstm-small-lean", ["--penalised", "0", "--decay", "0.5"]),
    "finetune": ("ptb-lstm-small-iss-finetune", ["--start", "runs/small-dense"]),
    "finetune-strong": (
        "ptb-lstm-small-iss-finetune",
        ["--start", "runs/small-dense-bfloat16", "--strength", "6e-3", *HALF, *COMPACT],
    ),
    "l1": ("ptb-lstm-small-l1", ["--start", "runs/small-dense", *HALF]),
    "direct": ("ptb-lstm-small-direct", ["--embedding", "155", "--widths", "85", "94"]),
    "pruned": ("ptb-lstm-small-pruned", ["--start", "runs/small-dense", "--keep-widths", "85", "94"]),
}
"""Name of a run: the recipe, and what is different from it."""
MEDIUM: Runs = {
    "dense": ("ptb-lstm-medium", HALF),
    "iss": ("ptb-lstm-medium-iss", [*HALF, *COMPACT]),
    "lean": ("ptb-lstm-medium-lean", []),
    "lean-tied": ("ptb-lstm-medium-lean-tied", HALF),
}


def highway(name: str, strengths: tuple[str, ...]) -> Runs:
    """The paper's table 2: dense, four strengths, and a dense model of the width that one of them learns."""
    sparse = {f"iss-{value}": (f"{name}-iss", ["--strength", value, *COMPACT]) for value in strengths}
    return {"dense": (name, []), **sparse, "lean": (f"{name}-lean", []), "direct": (f"{name}-direct", [])}


def other(name: str, **strengths: str) -> Runs:
    """A cell that the paper has no table of; the paper's method at the recipe's strength and at those given by name."""
    sparse = {
        f"iss-{each}": (f"{name}-iss", ["--strength", value, *HALF, *COMPACT]) for each, value in strengths.items()
    }
    runs = {"dense": (name, HALF), "iss": (f"{name}-iss", [*HALF, *COMPACT]), **sparse}
    return runs | {kind: (f"{name}-{kind}", HALF) for kind in ("lean", "direct")}


THREADS = 1  # runs go two beside each other, which uses two cores best
WIDER = ["--embedding", "300", "--widths", "300", "--strength", "5.7e-3"]
"""Start wider than the dense model, and let the penalty find the width. The strength was chosen to end near the dense
one's, after a run at 5e-3 that had 229 units left."""
SIZES: dict[str, Runs] = {
    "small": SMALL,
    "medium": MEDIUM,
    "rhn": highway("ptb-rhn", ("4e-3", "5e-3", "6e-3", "7e-3")) | {"begun": ("ptb-rhn", ["--epochs", "2"])},
    "rhn-medium": highway("ptb-rhn-medium", ("4e-3", "5e-3", "6e-3", "8e-3")),
    "rhn-small": highway("ptb-rhn-small", ("5e-3", "7e-3", "1.1e-2", "1.6e-2"))
    | {"wider": ("ptb-rhn-small-lean", WIDER)},
    "gru-small": other("ptb-gru-small", strong="5e-3"),
    "gru-medium": other("ptb-gru-medium", strong="5e-3"),
    "rnn-small": other("ptb-rnn-small"),
}


def dense_of(size: str) -> Config:
    """Settings of the model that others are compared with."""
    return named(SIZES[size]["dense"][0]).config


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


def results(size: str) -> Path:
    """The file of all runs of a size."""
    return RESULTS / f"ptb_{size.replace('-', '_')}.json"


def write_down(size: str, name: str, found: dict[str, Any]) -> None:
    """Add a run to the results; those of other runs stay."""
    path = results(size)
    known = json.loads(path.read_text()) if path.exists() else {"runs": {}}
    known["runs"][name] = found | {"environment": environment() | {"threads": THREADS}}
    path.write_text(json.dumps(known, indent=1) + "\n")


def mult_adds(sizes: list[int], dense: Config, vocabulary: int = 10_000) -> int:
    """For a word, of an embedding and layers of these sizes: the gates of every layer, and the scores."""
    gates = GATES[dense.cell]
    return sum(gates * m * (n + dense.depth * m) for n, m in pairwise(sizes)) + sizes[-1] * vocabulary


def table(runs: dict[str, Any], dense: Config) -> str:
    """Perplexity, widths, size and epochs of every run, beside the dense model."""
    first = mult_adds([dense.embedding, *dense.widths], dense)
    timed = any("onnxruntime" in run for run in runs.values())
    lines = [
        "| run | validation | test | embedding, layers | weights | mult-adds | epochs | training time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines = [lines[0] + " 300 words in onnxruntime |", lines[1] + "---|"] if timed else lines
    for name, run in runs.items():
        sizes = [run["embedding"], *run["widths"]]
        widths, cost = ", ".join(map(str, sizes)), mult_adds(sizes, dense)
        lines.append(
            f"| {name} | {run['valid']:.2f} | {run['test']:.2f} | {widths} | {run['weights'] / 1e6:.2f} M | "
            f"{cost / 1e6:.2f} M ({first / cost:.2f} times fewer) | {len(run['epochs'])} | "
            f"{'1' if name == 'dense' else format(run['time'], '.2f') if 'time' in run else 'not measured'} |"
            + (f" {milliseconds(run.get('onnxruntime', {}))} |" if timed else "")
        )
    return "\n".join(lines)


def milliseconds(found: dict[str, Any]) -> str:
    """Of 300 words, and how many times faster than the dense model."""
    if not found:
        return "not measured"
    faster = f" ({found['ratio']:.2f} times faster)" if "ratio" in found else ""
    return f"{found['milliseconds']:.2f} ms{faster}"


def write_page(size: str) -> None:
    """The table of one size in docs/reproduce.md, with the commands, and in the README, from what was written down."""
    runs = json.loads(results(size).read_text())["runs"]
    ordered = {name: runs[name] for name in SIZES[size] if name in runs}
    rows, commands = table(ordered, dense_of(size)), "\n".join(run["command"] for run in ordered.values())
    put({DOCS / "reproduce.md": f"{rows}\n\n```text\n{commands}\n```", ROOT / "README.md": rows}, size)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("runs", nargs="*", help="names of runs; all that have no result yet if none is given")
    parser.add_argument("--widths", type=int, nargs="+", default=[], help="of a direct design, embedding first")
    parser.add_argument("--table", action="store_true", help="only write the page again")
    options = parser.parse_args()
    path = results(options.size)
    if unknown := set(options.runs) - SIZES[options.size].keys():
        parser.error(f"no run is called {', '.join(sorted(unknown))}. There are {', '.join(SIZES[options.size])}.")
    done = json.loads(path.read_text())["runs"] if path.exists() else {}
    left = [name for name in SIZES[options.size] if name not in done]
    for name in [] if options.table else options.runs or left:
        write_down(options.size, name, train(options.size, name, options.widths))
    write_page(options.size)


if __name__ == "__main__":
    main()
