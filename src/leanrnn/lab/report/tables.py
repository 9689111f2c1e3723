"""The tables of a report, the same for HTML and Markdown; and every epoch as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from leanrnn.lab.report.again import train_command
from leanrnn.lab.report.story import Story

__all__ = [
    "Table", "comma_separated", "environments_table", "epochs", "facts", "layers_table", "runs_table", "threads",
    "times_table",
]  # fmt: skip

Table = tuple[list[str], list[list[str]]]
"""Its head, and its rows."""


def runs_table(stories: Sequence[Story]) -> Table:
    """A column a run, or a row where there are many."""
    wording = stories[0].wording
    rows = {
        wording.score_name: [f"{story.valid:.2f}" for story in stories],
        wording.other_name: ["" if story.test is None else f"{story.test:.2f}" for story in stories],
        wording.sizes_name: [" + ".join(map(str, story.sizes)) for story in stories],
        "weights": [f"{story.weights:,}" for story in stories],
        "mult-adds a word": [f"{story.mult_adds:,}" for story in stories],
    }
    if any(story.cut for story in stories):
        before = [" + ".join(map(str, story.first_sizes)) for story in stories]
        if len(stories) < 5:  # there is no room for it otherwise, and the layers of every run tell it
            rows[f"{wording.sizes_name}, before training"] = before
        rows["times fewer mult-adds than before"] = [f"{s.first_mult_adds / s.mult_adds:.2f}" for s in stories]
    if any(story.budget for story in stories):
        rows["budget"] = [story.budget for story in stories]
    rows |= {
        wording.steps: [epochs(story) for story in stories],
        "seconds of training": [f"{story.seconds:.0f}" for story in stories],
    }
    names = [story.name for story in stories]
    if len(stories) < 5:
        return ["", *names], [[name, *cells] for name, cells in rows.items()]
    return ["", *rows], [[name, *cells] for name, *cells in zip(names, *rows.values(), strict=True)]


def layers_table(story: Story) -> Table:
    """Every width that can shrink, with who reads it; and those that cannot, with the reason."""
    rows = [
        [
            layer.name,
            str(story.first.get(layer.name, "")),
            str(layer.width),
            f"{layer.group_size:,}",
            ", ".join(layer.readers),
        ]
        for layer in story.groups
    ]
    rows += [[name, "", "", "", f"pinned: {reason}"] for name, reason in story.groups.pinned]
    return ["layer", "before", "now", "weights in a group", "read by"], rows


def times_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What ``leanrnn.cli.measure.measured`` found."""
    head = ["model", "milliseconds", "file", "peak memory"]
    found = []
    for row in rows:
        low, high = row["quartiles"]
        found.append([
            f"{row['model']}, {row['runtime']}, {threads(row['threads'])}",
            f"{row['milliseconds']:.2f} ({low:.2f} to {high:.2f}){' noisy' if row['noisy'] else ''}",
            f"{row['file_bytes'] / 1e6:.2f} MB",
            "not known" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f} MB",
        ])  # fmt: skip
    return head, found


def environments_table(stories: Sequence[Story], measured: Mapping[str, str] | None) -> Table:
    """Where runs were trained and models measured; a column for every environment that is different."""
    columns: list[tuple[str, dict[str, str]]] = []
    given = [(f"{story.name}", story.environment) for story in stories]
    for name, environment in [*given, *([("times", dict(measured))] if measured else [])]:
        known = {key: str(value) for key, value in environment.items() if key != "data"}
        same = next((i for i, (_, other) in enumerate(columns) if other == known), None)
        if same is None:
            columns.append((name, known))
        else:
            columns[same] = (f"{columns[same][0]}, {name}", known)
    keys = dict.fromkeys(key for _, column in columns for key in column)
    return ["", *(name for name, _ in columns)], [[key, *(c.get(key, "") for _, c in columns)] for key in keys]


def comma_separated(stories: Sequence[Story]) -> str:
    """Every epoch of every run, a line each; runs may have different layers. ::

    print(comma_separated(read_stories([Path("runs/text")])))
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = list(dict.fromkeys(name for story in stories for line in story.epochs for name in line["widths"]))
    wording = stories[0].wording
    keys = [
        key for key in (wording.step, "rate", "train", "loss", "valid", "exact", "f1") if key in stories[0].epochs[0]
    ]
    writer.writerow(["run", *keys, "seconds", *(f"alive {name}" for name in names)])
    for story in stories:
        for line in story.epochs:
            alive = [line["alive"].get(name, line["widths"].get(name, "")) for name in names]
            writer.writerow([story.name, *(line[key] for key in (*keys, "seconds")), *alive])
    return file.getvalue()


def facts(story: Story) -> dict[str, Any]:
    """The numbers of a run as plain data."""
    return {
        "run": story.name, "folder": str(story.folder), "finished": story.result is not None,
        story.wording.score: story.valid, story.wording.other: story.test, "sizes": story.sizes,
        "first_sizes": story.first_sizes, "weights": story.weights,
        "budget": story.budget, "mult_adds_a_word": story.mult_adds, "first_mult_adds_a_word": story.first_mult_adds,
        story.wording.steps: story.done, "seconds": story.seconds, "command": train_command(story),
    }  # fmt: skip


def epochs(story: Story) -> str:
    """How many are done, and of how many if there are more to come."""
    return str(story.done) if story.result else f"{story.done} of {story.config[story.wording.steps]}"


def threads(count: int) -> str:
    """One thread, or several."""
    return f"{count} thread{'s' if count > 1 else ''}"
