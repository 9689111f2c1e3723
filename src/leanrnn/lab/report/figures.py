"""The pictures of the page, each a list of panels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from leanrnn.lab.report.drawing import COLOURS, LAYERS, RUNS, SOFT, panel
from leanrnn.lab.report.labels import apart
from leanrnn.lab.report.story import Story

__all__ = ["colour", "course", "latency", "layer", "marks", "norms", "pace", "trade"]

MARKS = "os^Dvph*"
LINE_OF_TIMES = 0.17  # inches


def course(story: Story, stories: Sequence[Story]) -> list[str]:
    """Scores, epoch by epoch, and widths where they changed."""
    return [_scores(story, colour(story, stories)), *([_alive(story)] if _moved(story) else [])]


def pace(story: Story) -> str:
    """How long an epoch took, at first and in the end."""
    first, last = (story.epochs[i]["seconds"] for i in (0, -1))
    name = "An epoch" if story.wording.line == "epoch" else "Training up to an evaluation"
    return f"{name} took {first:.1f} s at first and {last:.1f} s in the end."


def colour(story: Story, stories: Sequence[Story]) -> str:
    """Of a run, on the whole page."""
    return _of_run([each.name for each in stories].index(story.name))


def _of_run(i: int) -> str:
    return RUNS[i] if i < len(RUNS) else COLOURS[i % 8]


def _moved(story: Story) -> bool:
    """Whether a width changed while it trained."""
    return any(count < story.first.get(name, 0) for line in story.epochs for name, count in line["alive"].items())


def _scores(story: Story, colour: str) -> str:
    wording = story.wording
    lines = {name: [line[key] for line in story.epochs] for name, key in wording.curves}
    told = "; ".join(f"{name} from {values[0]:.1f} to {values[-1]:.1f}" for name, values in lines.items())

    def draw(axis: Any) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        for i, (name, values) in enumerate(lines.items()):
            look = {"color": SOFT if i else colour, "linestyle": "--" if i else "-", "marker": MARKS[i]}
            axis.plot(_epochs(story), values, label=name, markersize=3, linewidth=1.4, **look)
        if wording.lower:
            axis.set_yscale("log")
            every = [value for values in lines.values() for value in values]
            close = max(every) < 8 * min(every)
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 6, 8) if close else (1, 2, 5)))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        _by_epoch(axis, story)

    return panel(wording.short, f"{wording.short}, {wording.line} by {wording.line}: {told}.", draw, legend=True)


def _alive(story: Story) -> str:
    names = list(story.first)
    alive = {name: [line["alive"].get(name, line["widths"][name]) for line in story.epochs] for name in names}
    epochs = _epochs(story)
    if not story.about.get("start"):  # how wide the model of another run was is not told
        alive = {name: [first, *alive[name]] for name, first in zip(names, story.first_sizes, strict=True)}
        epochs = [0, *epochs]
    told = "; ".join(f"{layer(name)} from {values[0]} to {values[-1]}" for name, values in alive.items())

    def draw(axis: Any) -> None:
        for i, (name, values) in enumerate(alive.items()):
            # Thinner and thinner, since equal ones lie on each other.
            look = {"marker": MARKS[i % 8], "markersize": max(2.0, 5 - i), "linewidth": max(1.0, 3.2 - 0.9 * i)}
            axis.plot(epochs, values, color=LAYERS[i % 4], label=layer(name), **look)
        axis.set_ylim(0, 1.06 * max(map(max, alive.values())))
        _by_epoch(axis, story)

    by = f"{story.wording.line} by {story.wording.line}"
    return panel("Components alive", f"Components alive, {by}: {told}.", draw, legend=True)


def norms(story: Story, stories: Sequence[Story]) -> list[str]:
    """How the norms of all groups are spread, the dead among them; beside those of a run that lost components, a dense
    run of the same sizes as an outline."""
    others = [other for other in stories if other is not story and not other.sparse and story.cut]
    dense = next((each for each in others if each.first_sizes == story.first_sizes == each.sizes), None)
    colours = [colour(each, stories) for each in (story, dense) if each]
    return [_norms(story, name, story.first[name], dense, colours) for name in story.norms]


def _norms(story: Story, name: str, first: int, dense: Story | None, colours: Sequence[str]) -> str:
    values, others = story.norms[name], dense.norms.get(name, []) if dense else []
    dead = first - len(values)
    bins = np.linspace(0, max([*values, *others, 1e-9]) * 1.02, 25)

    def draw(axis: Any) -> None:
        counts, *_ = axis.hist(values, bins, histtype="stepfilled", color=colours[0], label=story.name)
        if dense:
            axis.hist(others, bins, histtype="step", color=colours[1], linewidth=1.3, label=dense.name)
        highest = np.maximum(counts, np.histogram(others, bins)[0])
        tallest = max(*highest, 1)
        if dead:
            # The bar at zero may be far higher than all others; its number says how high, beside it or above what it
            # would cover: it is about as wide as nine bins.
            height = max(min(dead, 2 * tallest), *highest[:9])
            axis.bar(0, dead, bins[1] * 0.8, color="none", edgecolor=colours[0], hatch="/////", linewidth=1)
            axis.set_ylim(0, 1.15 * max(tallest, min(dead, 2 * tallest)))
            axis.annotate(f"{dead} dead", (bins[1] * 0.4, height), (4, 2), textcoords="offset points")
        axis.set_xlabel("norm of a group")
        _whole_numbers(axis.yaxis)

    spread = f"{min(values):.2g} to {max(values):.2g}" if values else "none"
    told = f"Norms of the groups of {layer(name)}: {dead} of {first} are zero, the others {spread}."
    return panel(f"{layer(name).capitalize()}: groups by norm", told, draw, legend=dense is not None)


def marks(stories: Sequence[Story]) -> list[str]:
    """What stands beside the point of a run: its name, or a number where there would be no room for names. ::

    marks(stories)  # ["dense", "lean"]
    """
    names = [story.name for story in stories]
    return names if len(names) < 7 and max(map(len, names)) < 13 else [str(i + 1) for i in range(len(names))]


def trade(stories: Sequence[Story]) -> list[str]:
    """Quality against size, a point a run."""
    values = [story.mult_adds / 1e6 for story in stories]
    scores, wording = [story.valid for story in stories], stories[0].wording
    title = f"{wording.score_name[0].upper()}{wording.score_name[1:]} against size"

    def draw(axis: Any) -> None:
        for i, (x, y) in enumerate(zip(values, scores, strict=True)):
            axis.scatter([x], [y], color=_of_run(i), marker=MARKS[i % 8], s=28, zorder=3)
        axis.set_xlim(0, 1.08 * max(values))
        axis.margins(y=0.14)
        axis.set_xlabel("million mult-adds a word")
        axis.grid()
        apart(axis, marks(stories), values, scores)

    points = zip(stories, values, scores, strict=True)
    told = "; ".join(f"{story.name} {y:.2f} at {x:.3g}" for story, x, y in points)
    return [panel(title, f"{title}, in million mult-adds a word: {told}.", draw, 2.5)]


def latency(rows: Sequence[dict[str, Any]], models: Sequence[str]) -> list[str]:
    """Milliseconds of every model in every runtime, a panel for every number of threads."""
    counts = dict.fromkeys(row["threads"] for row in rows)
    return [_times([row for row in rows if row["threads"] == count], models, count) for count in counts]


def _times(rows: Sequence[dict[str, Any]], models: Sequence[str], threads: int) -> str:
    """Points from quartile to quartile; each ten times as far as the one before, so that half a millisecond can be read
    beside eighty."""
    runtimes = list(dict.fromkeys(row["runtime"] for row in rows))
    thick = 0.82 / len(models)

    def draw(axis: Any) -> None:
        for j, model in enumerate(models):
            own = [row for row in rows if row["model"] == model]
            places = [runtimes.index(row["runtime"]) + (j - (len(models) - 1) / 2) * thick for row in own]
            spent = [row["milliseconds"] for row in own]
            axis.hlines(places, *zip(*(row["quartiles"] for row in own), strict=True), color=_of_run(j), linewidth=1.6)
            axis.scatter(spent, places, color=_of_run(j), label=model, marker=MARKS[j % 8], s=22, zorder=3)
            for row, place in zip(own, places, strict=True):
                told = f"{row['milliseconds']:.2f}{' noisy' if row['noisy'] else ''}"
                axis.annotate(
                    told, (max(row["quartiles"][1], row["milliseconds"]), place), (6, 0), textcoords="offset points",
                    va="center", fontsize=7.5,
                )  # fmt: skip
        _decades(axis, [each for row in rows for each in (*row["quartiles"], row["milliseconds"])])
        axis.set_yticks(range(len(runtimes)), runtimes)
        axis.invert_yaxis()
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="x")

    title = f"Milliseconds, {threads} thread{'s' if threads > 1 else ''}"
    told = "; ".join(f"{row['model']} in {row['runtime']} {row['milliseconds']:.2f}" for row in rows)
    high = 0.9 + LINE_OF_TIMES * len(rows) + 0.06 * len(runtimes)
    return panel(title, f"{title}: {told}.", draw, high, legend=True)


def _decades(axis: Any, values: Sequence[float]) -> None:
    """A scale of 1, 2, 5 and 10, with room for a number behind the last point."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = min(values), max(values)
    axis.set_xscale("log")
    axis.set_xlim(low / 1.3, high * max(2.0, (high / low) ** 0.4))
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def layer(name: str) -> str:
    """The name of a layer as a reader counts. ::

    layer("layers.0.l0")  # layer 1
    """
    name = re.sub(r"(fwd|bwd)\.l0$", r"\1", name)
    return re.sub(r"layers\.(\d+)\.l0", lambda match: f"layer {int(match[1]) + 1}", name)


def _epochs(story: Story) -> list[int]:
    return [line[story.wording.step] for line in story.epochs]


def _by_epoch(axis: Any, story: Story) -> None:
    axis.set_xlabel(story.wording.step)
    axis.grid(axis="y")
    _whole_numbers(axis.xaxis)


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins=6))
