"""The words and tables of a report, the same for HTML, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from leanrnn.report.story import Story

__all__ = ["RUNS", "comma_separated", "layers_table", "markdown", "runs_table", "summary", "times_table"]

RUNS = [
    "run", "validation", "test", "embedding + layers", "weights", "mult-adds a word", "times fewer than at first",
    "epochs", "seconds of training",
]  # fmt: skip


def summary(stories: Sequence[Story]) -> list[str]:
    """What happened, in plain words, a paragraph a run."""
    found = []
    for story in stories:
        before, now = (" + ".join(map(str, sizes)) for sizes in (story.first_sizes, story.sizes))
        result, ratio = story.result, story.dense_mult_adds / story.mult_adds
        if before == now:
            size = f"kept its size ({now})"
        else:
            size = f"began with {before} (embedding + layers) and ended with {now}: {ratio:.1f} times fewer mult-adds"
        text = (
            f"{story.name} {size}. It has {result['weights']:,} weights, and perplexity {result['valid']:.2f} on the "
        )
        text += f"validation text and {result['test']:.2f} on the test text."
        if result["difference"] > 0:
            text += f" Cutting out what was dead changed no score by more than {result['difference']:.0e}."
        found.append(text)
    return found


def runs_table(stories: Sequence[Story]) -> list[list[str]]:
    """A row a run, under :data:`RUNS`."""
    return [
        [
            story.name, f"{story.result['valid']:.2f}", f"{story.result['test']:.2f}",
            " + ".join(map(str, story.sizes)), f"{story.result['weights']:,}", f"{story.mult_adds:,}",
            f"{story.dense_mult_adds / story.mult_adds:.2f}", str(len(story.epochs)),
            f"{sum(line['seconds'] for line in story.epochs):.0f}",
        ]
        for story in stories
    ]  # fmt: skip


def layers_table(story: Story) -> tuple[list[str], list[list[str]]]:
    """Every width that can shrink, with who reads it; and those that cannot, with the reason."""
    rows = [[layer.name, str(layer.width), f"{layer.group_size:,}", ", ".join(layer.readers)] for layer in story.groups]
    rows += [[name, "pinned", "", reason] for name, reason in story.groups.pinned]
    return ["layer", "width", "weights in a group", "read by"], rows


def times_table(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """What :class:`leanrnn.commands.measure.Measure` found."""
    head = ["model", "runtime", "threads", "milliseconds", "quartiles", "file", "peak memory"]
    found = []
    for row in rows:
        low, high = row["quartiles"]
        found.append([
            row["model"], row["runtime"], str(row["threads"]), f"{row['milliseconds']:.2f}", f"{low:.2f} to {high:.2f}",
            f"{row['file_bytes'] / 1e6:.2f} MB", f"{row['peak_bytes'] / 1e6:.0f} MB",
        ])  # fmt: skip
    return head, found


def markdown(stories: Sequence[Story], rows: Sequence[dict[str, Any]]) -> str:
    """The words and tables of the page."""
    parts = [*summary(stories), _pipes(RUNS, runs_table(stories))]
    parts += [_pipes(*times_table(rows))] if rows else []
    for story in stories:
        parts += [f"## {story.name}", _pipes(*layers_table(story)), f"```text\n{story.command}\n```"]
    return "\n\n".join(parts) + "\n"


def comma_separated(stories: Sequence[Story]) -> str:
    """Every epoch of every run, a line each."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = list(stories[0].epochs[0]["alive"])
    writer.writerow(["run", "epoch", "rate", "train", "valid", "seconds", *(f"alive {name}" for name in names)])
    for story in stories:
        for line in story.epochs:
            alive = [line["alive"].get(name, "") for name in names]
            writer.writerow([story.name, *(line[k] for k in ("epoch", "rate", "train", "valid", "seconds")), *alive])
    return file.getvalue()


def _pipes(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
