"""Writes the README's table of results from what other programs measured.

python -m benchmarks front
"""

from __future__ import annotations

import json
import statistics
from argparse import ArgumentParser
from typing import Any, NamedTuple

from benchmarks.common import RESULTS, ROOT, put, table
from benchmarks.ptb.runs import dense_of, mult_adds, results

__all__ = ["main", "rows"]

HEAD = ["model and task", "dense", "small from the start", "the paper's method", "leanrnn"]


class Row(NamedTuple):
    """A size of `ptb`, what it is, and the runs in its columns after the dense one."""

    size: str
    what: str
    runs: tuple[str, str, str]


LANGUAGE = (
    Row("small", "LSTM, 2 x 200", ("direct", "iss-strong", "lean")),
    Row("gru-small", "GRU, 2 x 200", ("direct", "iss", "lean")),
    Row("gru-medium", "GRU, 2 x 650", ("direct", "iss-strong", "lean")),
    Row("rnn-small", "RNN, 2 x 200", ("direct", "iss", "lean")),
    Row("rhn-small", "highway network, 200 x 5", ("direct", "iss-7e-3", "lean")),
)
ANSWERS = ("dense-longer", "", "finetune", "lean-finetune")
VOICES = ("original", "even", "", "ours")


def rows() -> list[list[str]]:
    """All rows: first language models, then question answering, then a published model."""
    return [*map(_language, LANGUAGE), _answers(), _voices()]


def _language(row: Row) -> list[str]:
    """Perplexity of the test text, and how many times fewer mult-adds."""
    runs, dense = json.loads(results(row.size).read_text())["runs"], dense_of(row.size)
    first = mult_adds([dense.embedding, *dense.widths], dense)
    cells = [f"{runs['dense']['test']:.1f}"]
    for run in (runs[name] for name in row.runs):
        less = first / mult_adds([run["embedding"], *run["widths"]], dense)
        cells.append(f"{run['test']:.1f} ({less:.1f}x)")
    return [f"{row.what}: language, perplexity", *cells]


def _answers() -> list[str]:
    """F1, and how many times fewer parameters without embeddings."""
    runs = json.loads((RESULTS / "squad.json").read_text())["runs"]
    return ["BiDAF: question answering, F1", *(_beside(runs, name, ANSWERS[0], _f1) for name in ANSWERS)]


def _voices() -> list[str]:
    """Equal error rate of new speakers, and how many times fewer mult-adds."""
    found = json.loads((RESULTS / "published.json").read_text())
    runs = {}
    for name, sizes in found["sizes"].items():
        rates = [judged["equal_error_rate"] for judged in found["quality"]["speakers"][name]]
        runs[name] = {**sizes[0], "equal_error_rate": statistics.mean(rates)}
    return ["a published voice encoder: equal error rate", *(_beside(runs, name, VOICES[0], _error) for name in VOICES)]


def _beside(runs: dict[str, Any], name: str, first: str, told: Any) -> str:
    if not name:
        return ""
    score, size = told(runs[name])
    return score if name == first else f"{score} ({told(runs[first])[1] / size:.1f}x)"


def _f1(run: dict[str, Any]) -> tuple[str, float]:
    return f"{run['f1']:.1f}", run["weights_without_embeddings"]


def _error(run: dict[str, Any]) -> tuple[str, float]:
    return f"{100 * run['equal_error_rate']:.1f} %", run["mult_adds"]


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Write the table."""
    parser.parse_args(words)
    put({ROOT / "README.md": table(HEAD, rows())}, "front")
