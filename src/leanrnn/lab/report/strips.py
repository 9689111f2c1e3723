"""Where the weights of a run are not zero: in the model it comes from, with empty strips where components were cut out,
and as they are stored, dense (figures 4 and 5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from leanrnn.lab.report.drawing import SOFT, panel
from leanrnn.lab.report.figures import layer
from leanrnn.lab.report.story import Story

__all__ = ["strips", "zeros"]

SAMPLED = 240  # at most so many rows and columns of a matrix are drawn
LEAST = 0.3  # inches that a matrix is given, however small it is
GATES = {
    4: ("input", "forget", "update", "output"),  # of an LSTM
    3: ("reset", "update", "new"),  # of a GRU
    2: ("candidate", "transform"),  # of a highway layer
    1: ("new",),
}
"""By their number, in the order of the weights."""
Levels = NDArray[np.uint8]
GONE, ZERO, THERE = 0, 1, 2


@dataclass(frozen=True)
class _Matrix:
    """What of a matrix is there, turned as in the paper: what comes in from top to bottom."""

    name: str
    before: Levels
    after: Levels
    rows: dict[str, tuple[int, int]]
    """Kinds of rows, with how many there were and are."""
    columns: tuple[str, ...]


def strips(story: Story) -> list[str]:
    """Every recurrent layer and the output layer: a pair of panels to one scale, or one where nothing was cut."""
    told = [", before the cut", ", after it"] if story.cut else [""]
    return [_panel(each, which, words) for each in _matrices(story) for which, words in enumerate(told)]


def zeros(story: Story) -> float:
    """Part of the drawn weights that is zero or gone."""
    levels = np.concatenate([each.before.reshape(-1) for each in _matrices(story)])
    return float(np.mean(levels < THERE))


def _panel(matrix: _Matrix, which: int, words: str) -> str:
    levels = (matrix.before, matrix.after)[which]
    kept, there = (float(np.mean(levels >= level)) for level in (ZERO, THERE))
    size, (rows, columns) = f"{levels.shape[0]} x {levels.shape[1]}", matrix.before.shape
    told = f"{matrix.name}{words}: {size} weights, {there:.0%} not zero, {1 - kept:.0%} in strips that were cut out."
    inches = min(1.6, max(0.9, 2.9 * rows / columns)) / rows  # a row, in both panels of a pair
    high = max(LEAST, inches * len(levels))

    def draw(axis: Any) -> None:
        _draw(axis, matrix, which, inches)
        axis.set(xlim=(-columns * 0.004, columns * 1.004), ylim=(high / inches * 1.01, -high / inches * 0.01))

    return panel(f"{matrix.name}{words}: {size}", told, draw, 0.6 + high)


def _draw(axis: Any, matrix: _Matrix, which: int, inches: float) -> None:
    """The matrix in its frame, with what its rows and columns are."""
    from matplotlib.colors import to_rgb

    levels = (matrix.before, matrix.after)[which]
    high, wide = levels.shape
    colours = np.array([(*to_rgb(SOFT), alpha) for alpha in (0.0, 0.22, 1.0)])
    axis.imshow(colours[_sampled(levels)], extent=(0, wide, high, 0), interpolation="none", aspect="auto")
    axis.plot([0, wide, wide, 0, 0], [0, 0, high, high, 0], color=SOFT, linewidth=0.6)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.xaxis.tick_top()
    count, start, places = len(matrix.columns), 0.0, []
    for sizes in matrix.rows.values():
        places.append(start + sizes[which] / 2)
        start += sizes[which]
        if start < high:
            axis.plot([0, wide], [start, start], color=SOFT, linewidth=0.6)
    close = len(places) > 1 and (places[1] - places[0]) * inches < 0.13  # no room to name both
    axis.set_yticks([high / 2] if close else places, ["from both"] if close else list(matrix.rows))
    few = wide < 0.55 * matrix.before.shape[1] and count > 1  # nor every gate
    axis.set_xticks([wide / 2] if few else [wide * (i + 0.5) / count for i in range(count)])
    axis.set_xticklabels(["gates"] if few else matrix.columns)


def _matrices(story: Story) -> list[_Matrix]:
    found = []
    for name in story.task.learned(story.model, story.config):
        if not name.endswith(".l0"):  # no recurrent layer
            continue
        title, place = layer(name).replace(".", ", ").capitalize(), name.removesuffix(".l0")
        module = story.model.get_submodule(place)
        names = [name for name, _ in module.named_parameters() if name.startswith("weight_")]
        pairs = [_levels(story, f"{place}.{name}") for name in names]
        before, after = (np.concatenate([pair[k] for pair in pairs], 1).T for k in (0, 1))
        below, *itself = [(was.shape[1], now.shape[1]) for was, now in pairs]
        rows = {"from below": below, "from itself": (sum(was for was, _ in itself), sum(now for _, now in itself))}
        found.append(_Matrix(title, before, after, rows, GATES[before.shape[1] // itself[0][0]]))
    if story.task.head:
        before, after = (levels.T for levels in _levels(story, _first_name(story.model, story.task.head)))
        found.append(_Matrix("Output layer", before, after, {"from below": (len(before), len(after))}, ("words",)))
    return found


def _first_name(model: nn.Module, name: str) -> str:
    """Tied, the output layer has the name of what it is tied to."""
    return next(first for first, each in model.named_parameters() if each is model.get_parameter(name))


def _levels(story: Story, name: str) -> tuple[Levels, Levels]:
    """A matrix in its first place, and as it is stored."""
    weight = story.model.get_parameter(name).detach()
    stored = np.where((weight != 0).cpu().numpy(), THERE, ZERO).astype(np.uint8)
    lengths = [story.plan.lengths.get((name, axis), stored.shape[axis]) for axis in (0, 1)]
    kept = [story.plan.cuts.get((name, axis), list(range(stored.shape[axis]))) for axis in (0, 1)]
    whole = np.full(lengths, GONE, np.uint8)
    whole[np.ix_(kept[0], kept[1])] = stored
    return whole, stored


def _sampled(levels: Levels) -> Levels:
    """At most so many rows and columns, evenly taken."""
    rows, columns = (np.linspace(0, size - 1, min(size, SAMPLED)).round().astype(int) for size in levels.shape)
    taken: Levels = levels[np.ix_(rows, columns)]
    return taken
