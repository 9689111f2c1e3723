"""The words of a report, the same for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leanrnn.lab.report.again import train_command
from leanrnn.lab.report.story import Story
from leanrnn.lab.report.tables import Table, environments_table, epochs, layers_table, runs_table, threads, times_table

__all__ = ["markdown", "sentence", "summary", "title"]


def summary(stories: Sequence[Story], rows: Sequence[dict[str, Any]]) -> str:
    """What happened, in a few plain sentences: how the runs compare, and what has to be known about that."""
    found = [_compared(stories), *_unequal(stories)] if len(stories) > 1 else [sentence(stories[0])]
    if not any(story.cut for story in stories):
        found.append("Nothing was cut out.")
    elif idle := [story.name for story in stories if story.sparse and not story.cut]:
        found.append(f"Nothing was cut out of {', '.join(idle)}.")
    if any(row["noisy"] for row in rows):
        found.append("Other work was going on while the models were timed, so do not compare their times.")
    elif rows:
        fast = min(rows, key=lambda row: float(row["milliseconds"]))
        where = f"{fast['runtime']} with {threads(fast['threads'])}"
        found.append(f"The fastest was {fast['model']} in {where}: {fast['milliseconds']:.2f} ms a call.")
    return " ".join(found)


def _compared(stories: Sequence[Story]) -> str:
    """The best run and the smallest, in one sentence."""
    wording = stories[0].wording
    best = (min if wording.lower else max)(stories, key=lambda story: story.valid)
    small = min(stories, key=lambda story: (story.mult_adds, story is not best))
    first = f"Of {len(stories)} runs, {best.name} has the best {wording.score_name} ({best.valid:.2f})"
    if all(story.mult_adds == best.mult_adds for story in stories):
        return f"{first}; all need the same number of mult-adds."
    if best is small:
        return f"{first} and needs the fewest mult-adds."
    fewer = best.mult_adds / small.mult_adds
    higher, points = small.valid / best.valid - 1, best.valid - small.valid
    worse = f"{higher:.0%} higher" if wording.lower else f"{points:.1f} lower"
    return f"{first}; {small.name} needs {fewer:.1f} times fewer mult-adds and has {small.valid:.2f}, {worse}."


def _unequal(stories: Sequence[Story]) -> list[str]:
    """What makes the comparison unfair."""
    found, wording = [], stories[0].wording
    if len({story.done for story in stories}) > 1:
        each = ", ".join(f"{story.name} {story.done}" for story in stories)
        found.append(f"They did not train equally long. Numbers of {wording.steps}: {each}.")
    if going := [story.name for story in stories if story.result is None]:
        found.append(f"Not finished: {', '.join(going)}.")
    return found


def sentence(story: Story) -> str:
    """What became of a run."""
    before, now = (" + ".join(map(str, sizes)) for sizes in (story.first_sizes, story.sizes))
    began = "comes from a model of" if story.about.get("start") else "began with"
    if story.cut:
        ratio = story.first_mult_adds / story.mult_adds
        text = (
            f"{story.name} {began} {before} ({story.wording.sizes_name}) and has {now} left, {ratio:.1f} times fewer "
            "mult-adds"
        )
    else:
        text = f"{story.name} kept its size, {now} ({story.wording.sizes_name})"
    text += f": {story.weights:,} weights, {story.wording.score_phrase.format(story.valid)}"
    if story.result is None:
        return f"{text}. It is not finished: this is its last checkpoint, after {story.wording.step} {epochs(story)}."
    text += story.wording.other_phrase.format(story.test) + "."
    if story.budget:
        text += f" Its budget was {story.budget}."
    if story.result["difference"] > 0:
        text += f" Cutting out what was dead changed no score by more than {story.result['difference']:.0e}."
    return text


def markdown(stories: Sequence[Story], rows: Sequence[dict[str, Any]], measured: Mapping[str, str] | None) -> str:
    """The words and tables of the page. ::

    print(markdown(read_stories([Path("runs/text")]), [], None))
    """
    parts = ["# " + title(stories), summary(stories, rows), "## The runs", _pipes(runs_table(stories))]
    parts += ["## How fast they are", _pipes(times_table(rows))] if rows else []
    for story in stories:
        parts += [
            f"## {story.name}",
            *([sentence(story)] if len(stories) > 1 else []),
            _pipes(layers_table(story)),
            f"```text\n{train_command(story)}\n```",
        ]
    parts += ["## Environment", _pipes(environments_table(stories, measured))]
    return "\n\n".join(parts) + "\n"


def title(stories: Sequence[Story]) -> str:
    """Of the page."""
    if len(stories) > 3:
        return f"What became of {len(stories)} runs"
    *most, last = (story.name for story in stories)
    return f"What became of {', '.join(most)} and {last}" if most else f"What became of {last}"


def _pipes(table: Table) -> str:
    head, rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
