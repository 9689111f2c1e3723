"""The words and tables of a report, the same for HTML and Markdown; and every epoch as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from leanrnn.lab.report.again import train_command
from leanrnn.lab.report.story import Story

__all__ = [
    "Table", "comma_separated", "environments_table", "facts", "layers_table", "markdown", "runs_table", "summary",
    "times_table", "title",
]  # fmt: skip

Table = tuple[list[str], list[list[str]]]
"""Its head, and its rows."""


def summary(stories: Sequence[Story], rows: Sequence[dict[str, Any]]) -> list[str]:
    """What happened, in plain words: how the runs compare, and a paragraph for each."""
    found = []
    if len(stories) > 1:
        wording = stories[0].wording
        best = (min if wording.lower else max)(stories, key=lambda story: story.valid)
        small = min(stories, key=lambda story: (story.mult_adds, story is not best))
        text = f"Of the {len(stories)} runs {best.name} has the best {wording.score_name}"
        if all(story.mult_adds == best.mult_adds for story in stories):
            text += "; they need as many mult-adds."
        elif best is small:
            text += " and needs the fewest mult-adds."
        else:
            fewer = best.mult_adds / small.mult_adds
            text += f"; {small.name} needs the fewest mult-adds, {fewer:.1f} times fewer, at "
            higher, points = small.valid / best.valid - 1, best.valid - small.valid
            text += (
                f"a perplexity {higher:.0%} higher."
                if wording.lower
                else f"an {wording.score_name} {points:.1f} lower."
            )
        found.append(text)
    if any(row["noisy"] for row in rows):
        found.append(
            "Other work was going on while models were timed: quartiles are far apart, and which was the fastest "
            "cannot be told."
        )
    elif rows:
        fast = min(rows, key=lambda row: float(row["milliseconds"]))
        found.append(
            f"The fastest was {fast['model']} in {fast['runtime']} with {_threads(fast['threads'])}: "
            f"{fast['milliseconds']:.2f} ms a call."
        )
    return [*found, *map(_sentence, stories)]


def _sentence(story: Story) -> str:
    before, now = (" + ".join(map(str, sizes)) for sizes in (story.first_sizes, story.sizes))
    began = "comes from a model of" if story.about.get("start") else "began with"
    if before == now:
        text = f"{story.name} kept its size, {now} ({story.wording.sizes_name})"
    else:
        ratio = story.first_mult_adds / story.mult_adds
        text = (
            f"{story.name} {began} {before} ({story.wording.sizes_name}) and has {now} left, {ratio:.1f} times fewer "
            "mult-adds"
        )
    text += f": {story.weights:,} weights, {story.wording.score_phrase.format(story.valid)}"
    if story.result is None:
        return f"{text}. It is not finished: this is its last checkpoint, after {story.wording.step} {_epochs(story)}."
    text += story.wording.other_phrase.format(story.test) + "."
    if story.budget:
        text += f" Its budget was {story.budget}."
    if story.result["difference"] > 0:
        text += f" Cutting out what was dead changed no score by more than {story.result['difference']:.0e}."
    return text


def runs_table(stories: Sequence[Story]) -> Table:
    """A column a run, or a row where there are many."""
    wording = stories[0].wording
    before = f"{wording.sizes_name}, before training"
    rows = {
        wording.score_name: [f"{story.valid:.2f}" for story in stories],
        wording.other_name: ["" if story.test is None else f"{story.test:.2f}" for story in stories],
        wording.sizes_name: [" + ".join(map(str, story.sizes)) for story in stories],
        before: [" + ".join(map(str, story.first_sizes)) for story in stories],
        "weights": [f"{story.weights:,}" for story in stories],
        "mult-adds a word": [f"{story.mult_adds:,}" for story in stories],
        "times fewer than before": [f"{story.first_mult_adds / story.mult_adds:.2f}" for story in stories],
        **({"budget": [story.budget for story in stories]} if any(story.budget for story in stories) else {}),
        wording.steps: [_epochs(story) for story in stories],
        "seconds of training": [f"{story.seconds:.0f}" for story in stories],
    }
    names = [story.name for story in stories]
    if len(stories) < 5:
        return ["", *names], [[name, *cells] for name, cells in rows.items()]
    del rows[before]  # there is no room for it, and the layers of every run tell it
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
    return ["layer", "at first", "now", "weights in a group", "read by"], rows


def times_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What ``leanrnn.cli.measure.measured`` found."""
    head = ["model", "runtime", "threads", "milliseconds", "quartiles", "file", "peak memory"]
    found = []
    for row in rows:
        low, high = row["quartiles"]
        found.append([
            row["model"], row["runtime"], str(row["threads"]), f"{row['milliseconds']:.2f}", f"{low:.2f} to {high:.2f}",
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


def markdown(stories: Sequence[Story], rows: Sequence[dict[str, Any]], measured: Mapping[str, str] | None) -> str:
    """The words and tables of the page. ::

    print(markdown(read_stories([Path("runs/text")]), [], None))
    """
    parts = ["# " + title(stories), *summary(stories, rows), "## The runs", _pipes(runs_table(stories))]
    parts += ["## How fast they are", _pipes(times_table(rows))] if rows else []
    for story in stories:
        parts += [f"## {story.name}", _pipes(layers_table(story)), f"```text\n{train_command(story)}\n```"]
    parts += ["## Environment", _pipes(environments_table(stories, measured))]
    return "\n\n".join(parts) + "\n"


def title(stories: Sequence[Story]) -> str:
    """Of the page."""
    if len(stories) > 3:
        return f"What became of {len(stories)} runs"
    *most, last = (story.name for story in stories)
    return f"What became of {', '.join(most)} and {last}" if most else f"What became of {last}"


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


def _epochs(story: Story) -> str:
    return str(story.done) if story.result else f"{story.done} of {story.config[story.wording.steps]}"


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _pipes(table: Table) -> str:
    head, rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
