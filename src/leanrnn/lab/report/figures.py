"""The pictures of the page, each a list of panels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from leanrnn.lab.report.drawing import COLOURS, panel
from leanrnn.lab.report.labels import apart
from leanrnn.lab.report.story import Story

__all__ = ["course", "latency", "layer", "marks", "norms", "trade"]

MARKS = "os^Dvph*"
BAR = 0.17  # inches a bar


def course(story: Story) -> list[str]:
    """Scores, widths and seconds, epoch by epoch."""
    return [_scores(story), _alive(story), _seconds(story)]


def _scores(story: Story) -> str:
    wording = story.wording
    lines = {name: [line[key] for line in story.epochs] for name, key in wording.curves}
    told = "; ".join(f"{name} from {values[0]:.1f} to {values[-1]:.1f}" for name, values in lines.items())

    def draw(axis: Any) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        for i, (name, values) in enumerate(lines.items()):
            axis.plot(
                _epochs(story), values, color=COLOURS[i], label=name, marker=MARKS[i], markersize=3, linewidth=1.4
            )
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
            axis.plot(epochs, values, color=COLOURS[i % 8], label=layer(name), **look)
        axis.set_ylim(0, 1.06 * max(map(max, alive.values())))
        _by_epoch(axis, story)

    by = f"{story.wording.line} by {story.wording.line}"
    return panel("Components alive", f"Components alive, {by}: {told}.", draw, legend=True)


def _seconds(story: Story) -> str:
    values = [line["seconds"] for line in story.epochs]

    def draw(axis: Any) -> None:
        axis.bar(_epochs(story), values, color=COLOURS[5], width=0.7 * _epochs(story)[0])
        _by_epoch(axis, story)

    name = "an epoch" if story.wording.line == "epoch" else "up to an evaluation"
    told = f"Seconds of training {name}: {values[0]:.1f} in the first, {values[-1]:.1f} in the last."
    return panel(f"Seconds of training {name}", told, draw)


def norms(story: Story, dense: Story | None) -> list[str]:
    """How the norms of all groups are spread, the dead among them; a dense run of the same sizes as an outline."""
    return [_norms(story, name, story.first[name], dense) for name in story.norms]


def _norms(story: Story, name: str, first: int, dense: Story | None) -> str:
    values, others = story.norms[name], dense.norms.get(name, []) if dense else []
    dead = first - len(values)
    bins = np.linspace(0, max([*values, *others, 1e-9]) * 1.02, 25)

    def draw(axis: Any) -> None:
        counts, *_ = axis.hist(values, bins, histtype="stepfilled", color=COLOURS[0], label=story.name)
        if dense:
            axis.hist(others, bins, histtype="step", color=COLOURS[1], linewidth=1.3, label=dense.name)
        highest = np.maximum(counts, np.histogram(others, bins)[0])
        tallest = max(*highest, 1)
        if dead:
            # The bar at zero may be far higher than all others; its number says how high, beside it or above what it
            # would cover: it is about as wide as nine bins.
            height = max(min(dead, 2 * tallest), *highest[:9])
            axis.bar(0, dead, bins[1] * 0.8, color="none", edgecolor=COLOURS[0], hatch="/////", linewidth=1)
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
    costs = {"million mult-adds a word": [story.mult_adds / 1e6 for story in stories]}
    costs["million weights"] = [story.weights / 1e6 for story in stories]
    scores, wording = [story.valid for story in stories], stories[0].wording
    title = wording.score_name[0].upper() + wording.score_name[1:]

    def panel_of(size: str, values: list[float]) -> str:
        def draw(axis: Any) -> None:
            for i, (x, y) in enumerate(zip(values, scores, strict=True)):
                axis.scatter([x], [y], color=COLOURS[i % 8], marker=MARKS[i % 8], s=28, zorder=3)
            axis.set_xlim(0, 1.08 * max(values))
            axis.margins(y=0.14)
            axis.set_xlabel(size)
            axis.grid()
            apart(axis, marks(stories), values, scores)

        points = zip(stories, values, scores, strict=True)
        told = "; ".join(f"{story.name} {y:.2f} at {x:.3g}" for story, x, y in points)
        return panel(title, f"{title} against {size}: {told}.", draw, 2.5)

    return [panel_of(size, values) for size, values in costs.items()]


def latency(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Milliseconds of every model in every runtime, a panel for every number of threads."""
    counts = dict.fromkeys(row["threads"] for row in rows)
    return [_bars([row for row in rows if row["threads"] == count], count) for count in counts]


def _bars(rows: Sequence[dict[str, Any]], threads: int) -> str:
    runtimes, models = (list(dict.fromkeys(row[key] for row in rows)) for key in ("runtime", "model"))
    thick = 0.82 / len(models)

    def draw(axis: Any) -> None:
        for j, model in enumerate(models):
            own = [row for row in rows if row["model"] == model]
            places = [runtimes.index(row["runtime"]) + (j - (len(models) - 1) / 2) * thick for row in own]
            spent = [row["milliseconds"] for row in own]
            bars = axis.barh(places, spent, thick * 0.86, color=COLOURS[j % 8], label=model)
            axis.bar_label(bars, [f"{each:.2f}" for each in spent], padding=3, fontsize=7.5)
        axis.set_yticks(range(len(runtimes)), runtimes)
        axis.invert_yaxis()
        axis.set_xlim(0, 1.2 * max(row["milliseconds"] for row in rows))
        axis.tick_params(axis="y", length=0)

    title = f"Milliseconds, {threads} thread{'s' if threads > 1 else ''}"
    told = "; ".join(f"{row['model']} in {row['runtime']} {row['milliseconds']:.2f}" for row in rows)
    high = 0.9 + BAR * len(rows) + 0.06 * len(runtimes)
    return panel(title, f"{title}: {told}.", draw, high, legend=True)


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
