"""The pictures of the page, as SVG that takes the page's own colour for its lines and letters."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import ConfigError
from leanrnn.report.story import Story

__all__ = ["course", "latency", "norms", "strips", "trade"]

INK = "#010203"  # stands for the colour of the page's letters
COLOURS = ("#3572b0", "#d1733b", "#3f9163", "#a25aa8", "#b8952e", "#5d7a8c")
WIDE, HIGH = 7.2, 2.5
SAMPLED = 240  # rows and columns of a matrix that are drawn


@contextmanager
def _drawing(
    rows: int = 1, columns: int = 1, high: float = HIGH, **options: Any
) -> Iterator[tuple[Any, Any, Callable[[], str]]]:
    """A figure, its axes, and a function that gives the SVG."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("matplotlib is not installed. Install it with: pip install leanrnn[report]") from error
    ink: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "leanrnn", "font.family": "sans-serif", "font.size": 9,
        "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "axes.linewidth": 0.6,
    }  # fmt: skip
    with matplotlib.rc_context(ink):
        figure = Figure(figsize=(WIDE, high), layout="constrained")
        axes = figure.subplots(rows, columns, **options)

        def svg() -> str:
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
            text = re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)
            text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
            return text.replace(INK, "currentColor")

        yield figure, axes, svg


def course(story: Story) -> str:
    """Perplexities, widths and seconds, epoch by epoch."""
    with _drawing(3, 1, 5.2, sharex=True, height_ratios=(3, 3, 2)) as (_, (top, middle, low), svg):
        epochs = [line["epoch"] for line in story.epochs]
        for key, colour, name in (("valid", COLOURS[0], "validation"), ("train", COLOURS[1], "training")):
            top.plot(epochs, [line[key] for line in story.epochs], color=colour, label=name, marker=".", linewidth=1.4)
        top.set_yscale("log")
        top.set_ylabel("perplexity")
        top.legend(loc="upper right")
        for i, name in enumerate(story.epochs[0]["widths"]):
            alive = [story.first_sizes[i], *(line["alive"].get(name, line["widths"][name]) for line in story.epochs)]
            middle.plot([0, *epochs], alive, color=COLOURS[i % 6], label=_layer(name), marker=".", linewidth=1.4)
        middle.set_ylim(bottom=0)
        middle.set_ylabel("alive")
        middle.legend(loc="upper right")
        low.bar(epochs, [line["seconds"] for line in story.epochs], color=COLOURS[5], width=0.7)
        low.set_ylabel("seconds")
        low.set_xlabel("epoch")
        return svg()


def strips(story: Story) -> str:
    """Every recurrent layer as it began, with what is left in its place, and beside it what is stored, to one scale."""
    pairs = [_matrix(story, i) for i in range(len(story.model.layers))]
    with _drawing(len(pairs), 2, 2.1 * len(pairs), squeeze=False) as (_, axes, svg):
        for i, pair in enumerate(pairs):
            rows, columns = pair[0].shape
            for axis, matrix, told in zip(axes[i], pair, ("at first", "stored"), strict=True):
                high, wide = matrix.shape
                place = (0, wide, high, 0)
                axis.imshow(_sampled(matrix), cmap=_two(), vmin=0, vmax=1, extent=place, interpolation="nearest")
                axis.set(xlim=(0, columns), ylim=(rows, 0), aspect="auto", xticks=[], yticks=[])
                axis.set_title(f"layer {i + 1}, {told}: {high} x {wide}", fontsize=8)
                axis.spines[:].set_visible(False)
        return svg()


def norms(story: Story) -> str:
    """How the norms of the groups that are left are spread."""
    with _drawing() as (_, axis, svg):
        largest = max(max(values) for values in story.norms.values())
        bins = np.linspace(0, largest * 1.02, 41)
        for i, (name, values) in enumerate(story.norms.items()):
            axis.hist(values, bins, histtype="step", color=COLOURS[i % 6], label=_layer(name), linewidth=1.4)
        axis.set_xlabel("norm of a group")
        axis.set_ylabel("groups")
        axis.legend(loc="upper right")
        return svg()


def trade(stories: Sequence[Story]) -> str:
    """Quality against size, a point a run."""
    with _drawing(high=3.0) as (_, axis, svg):
        for i, story in enumerate(stories):
            x, y = story.mult_adds / 1e6, story.result["valid"]
            axis.scatter([x], [y], color=COLOURS[i % 6], s=40, zorder=3)
            axis.annotate(story.name, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=8)
        axis.set_xlabel("million mult-adds a word")
        axis.set_ylabel("validation perplexity")
        axis.set_xlim(left=0)
        axis.margins(x=0.18, y=0.15)
        axis.grid(color=INK, alpha=0.12, linewidth=0.6)
        return svg()


def latency(rows: Sequence[dict[str, Any]]) -> str:
    """Milliseconds of every model in every runtime."""
    runtimes, models = (list(dict.fromkeys(row[key] for row in rows)) for key in ("runtime", "model"))
    with _drawing(high=0.55 + 0.3 * len(rows)) as (_, axis, svg):
        thick = 0.8 / len(models)
        for j, model in enumerate(models):
            own = [row for row in rows if row["model"] == model]
            places = [runtimes.index(row["runtime"]) + (j - (len(models) - 1) / 2) * thick for row in own]
            bars = axis.barh(
                places, [row["milliseconds"] for row in own], thick * 0.9, color=COLOURS[j % 6], label=model
            )
            axis.bar_label(bars, [f"{row['milliseconds']:.2f}" for row in own], padding=3, fontsize=8)
        axis.set_yticks(range(len(runtimes)), runtimes)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.set_xlabel("milliseconds")
        axis.legend(loc="lower right")
        return svg()


def _matrix(story: Story, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where a layer's input and recurrent weights are not zero: in their first place, and as they are stored."""
    names = [f"layers.{i}.weight_{kind}_l0" for kind in ("ih", "hh")]
    firsts, stored = [], []
    for name in names:
        weight = (story.model.get_parameter(name) != 0).double().numpy()
        lengths = [story.plan.lengths.get((name, axis), weight.shape[axis]) for axis in (0, 1)]
        kept = [story.plan.cuts.get((name, axis), list(range(weight.shape[axis]))) for axis in (0, 1)]
        whole = np.zeros(lengths)
        whole[np.ix_(kept[0], kept[1])] = weight
        firsts.append(whole)
        stored.append(weight)
    return np.concatenate(firsts, 1), np.concatenate(stored, 1)


def _sampled(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most so many rows and columns, evenly taken."""
    rows, columns = (np.linspace(0, size - 1, min(size, SAMPLED)).round().astype(int) for size in matrix.shape)
    taken: NDArray[np.float64] = matrix[np.ix_(rows, columns)]
    return taken


def _two() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(["#d8dde3", "#24507d"])


def _layer(name: str) -> str:
    return re.sub(r"layers\.(\d+)\.l0", lambda match: f"layer {int(match[1]) + 1}", name)
