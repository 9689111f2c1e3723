"""How long a size of Penn Treebank that nobody waits for here would train: real steps at the sizes it goes through.

python -m benchmarks ptb forecast large     # after medium's `lean`, whose course it follows; nothing else running
python -m benchmarks ptb forecast rhn       # after that of rhn-small; or rhn-medium

Some steps of the real loop are timed for the dense model, for the paper's method (full size to the end) and for ours at
the widths it would have if it shrank as the smaller model did; the rest is multiplication.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from benchmarks.common import DOCS, RESULTS, put, table, write
from benchmarks.ptb.runs import SIZES, dense_of, mult_adds, results
from benchmarks.ptb.time import TRAINING, at, seconds, stages
from leanrnn.environment import hold_memory
from leanrnn.lab import Config, named

LIKE = {"large": "medium", "rhn": "rhn-small", "rhn-medium": "rhn-small"}
"""What can be forecast, and the size whose run of `lean` tells how fast the widths fall."""
RECIPE = {"large": "ptb-lstm-large", "rhn": "ptb-rhn", "rhn-medium": "ptb-rhn-medium"}


def first_sizes(config: Config) -> list[int]:
    """Of the embedding and the layers, before anything leaves."""
    return [config.embedding, *config.widths]


def steps_of(config: Config) -> int:
    """Of an epoch."""
    return (TRAINING // config.batch - 1) // config.window


def scaled(course: list[dict[str, Any]], like: Config, factor: float, epochs: float) -> list[dict[str, Any]]:
    """The course of a smaller model at this size: widths in proportion, and as many epochs for it as there are."""
    return [
        part | {"sizes": [round(size * factor) for size in part["sizes"]], "steps": part["steps"] * epochs}
        for part in stages(course, like, near=0.3)
    ]


def forecast(size: str, steps: int) -> dict[str, Any]:
    """Seconds of a step and hours of the whole, for the dense model, the paper's method and ours."""
    name, found = RECIPE[size], dict[str, Any]()
    for way in ("", "-iss"):
        config = named(name + way).config
        spent = seconds(at(config, first_sizes(config), config.sparse), steps)
        found[name + way] = {"first": spent, "hours": spent * config.epochs * steps_of(config) / 3600}
    lean, like = named(f"{name}-lean").config, named(SIZES[LIKE[size]]["lean"][0]).config
    course = json.loads(results(LIKE[size]).read_text())["runs"]["lean"]["course"]
    parts = scaled(course, dense_of(LIKE[size]), lean.embedding / like.embedding, lean.epochs / like.epochs)
    for part in parts:
        part["seconds"] = seconds(at(lean, part["sizes"], part["penalised"]), steps)
    hours = sum(part["seconds"] * part["steps"] for part in parts) / 3600
    found[f"{name}-lean"] = {"first": parts[0]["seconds"], "hours": hours, "course": parts}
    return found


def page(found: dict[str, Any]) -> str:
    """The table of docs/reproduce.md."""
    rows = []
    for name, each in found.items():
        config = named(name).config
        words = config.batch * config.window
        sizes = each["course"][-1]["sizes"] if "course" in each else first_sizes(config)
        fewer = mult_adds(first_sizes(config), config) / mult_adds(sizes, config)
        rows.append([
            name, f"{words / each['first']:.0f}", f"{each['first'] * steps_of(config) / 60:.0f} min",
            str(config.epochs), f"{fewer:.1f}" if fewer > 1 else "1", f"{each['hours']:.1f} h",
        ])  # fmt: skip
    fewer_at_end = "mult-adds at the end, times fewer"
    head = ["recipe", "words a second at first", "first epoch", "epochs", fewer_at_end, "forecast"]
    return table(head, rows)


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write, and put the table into the page."""
    parser.add_argument("size", choices=LIKE)
    parser.add_argument("--steps", type=int, default=20, help="to time at every size")
    options = parser.parse_args(words)
    hold_memory()
    found = forecast(options.size, options.steps)
    write(RESULTS / f"ptb_{options.size.replace('-', '_')}_forecast.json", {"recipes": found})
    print(page(found))
    put({DOCS / "reproduce.md": page(found)}, f"forecast-{options.size}")
