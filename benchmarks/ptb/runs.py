"""The runs of Penn Treebank: what each is, where its result is written down, and the tables of all of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.common import DOCS, RESULTS, ROOT, put
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


def results(size: str) -> Path:
    """The file of all runs of a size."""
    return RESULTS / f"ptb_{size.replace('-', '_')}.json"


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
    """The table of one size in docs/reproduce.md, with the commands, from what was written down."""
    runs = json.loads(results(size).read_text())["runs"]
    ordered = {name: runs[name] for name in SIZES[size] if name in runs}
    rows, commands = table(ordered, dense_of(size)), "\n".join(run["command"] for run in ordered.values())
    put({DOCS / "reproduce.md": f"{rows}\n\n```text\n{commands}\n```"}, size)
