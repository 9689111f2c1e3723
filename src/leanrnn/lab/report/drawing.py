"""One small picture as SVG that takes the page's own colour and letters; several stand side by side, or one below the
other on a phone, so that what is written in them is never scaled down."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

from leanrnn.errors import ConfigError

__all__ = ["COLOURS", "INK", "LAYERS", "RUNS", "SOFT", "check_matplotlib", "own_names", "panel"]

INK = "#010203"  # stands for the colour of the page's letters
SOFT = "#7d8794"
# Told apart by colour-blind eyes, and three times lighter or darker than the page, be it light or dark.
COLOURS = ("#2f7fc1", "#cf5d0a", "#0c9068", "#b0609c", "#8f7a14", "#c2485f", "#4f8f9f", "#6b7f90")
RUNS, LAYERS = COLOURS[:4], COLOURS[4:]
"""A colour stands for a run or for a layer, never for both, on pages of up to four runs."""
WIDE = 3.3
"""Inches; a phone shows it at about its own size."""
LINE = 0.17  # inches, of a legend
LOOK: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "leanrnn", "font.family": "sans-serif", "font.size": 8.5,
    "axes.titlesize": 9, "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.5,
    "xtick.major.width": 0.5, "ytick.major.width": 0.5, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "legend.frameon": False, "legend.handlelength": 1.4, "legend.columnspacing": 1.2, "legend.borderaxespad": 0,
    "legend.borderpad": 0, "legend.handletextpad": 0.5, "grid.color": INK, "grid.alpha": 0.12, "grid.linewidth": 0.5,
}  # fmt: skip


def check_matplotlib() -> None:
    """An error that names the extra if it is missing."""
    try:
        import matplotlib  # noqa: F401  (only whether it is there)
    except ImportError as error:
        raise ConfigError("matplotlib is not installed. Install it with: pip install leanrnn[report]") from error


def panel(title: str, told: str, draw: Callable[[Any], None], high: float = 2.1, legend: bool = False) -> str:
    """``draw`` is given axes to draw on; ``told`` is for those who cannot see them. ::

    panel("Widths", "Widths fall from 200 to 65.", lambda axis: axis.plot([200, 90, 65]))
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(LOOK):
        figure = Figure(layout="constrained")
        axis = figure.subplots()
        draw(axis)
        lines = _legend(axis) if legend else 0
        figure.set_size_inches(WIDE, high + LINE * max(0, lines - 1))
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(file.getvalue()).replace("<svg", f'<svg role="img" aria-label="{escape(told, quote=True)}"', 1)


def _legend(axis: Any) -> int:
    """Above the axes, in as many columns as there is room for, to be read line by line; how many lines it has."""
    shapes, names = axis.get_legend_handles_labels()
    columns = max(1, min(len(names), 40 // (4 + max(map(len, names)))))
    order = [i for first in range(columns) for i in range(first, len(names), columns)]
    chosen = ([shapes[i] for i in order], [names[i] for i in order])
    axis.legend(*chosen, loc="lower left", bbox_to_anchor=(0, 1.02), ncols=columns)
    return -(-len(names) // columns)


def _inlined(text: str) -> str:
    """Without a head of its own, in the page's colour and letters, and only as exact as a screen is."""
    text = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"font: (?:(bold|700) )?([\d.]+)px [^;\"]*", _font, text)
    text = re.sub(r' d="[^"]*"', _short, text)
    text = re.sub(r' (?:width|height)="[^"]*pt"', "", text)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", text)
    return re.sub(r"\n\s*", "\n", text.replace(INK, "currentColor")).strip()


def _font(match: re.Match[str]) -> str:
    return f"font-size: {match[2]}px" + ("; font-weight: 600" if match[1] else "")


def _short(match: re.Match[str]) -> str:
    """A path to a hundredth of a point."""
    return " " + re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", " ".join(match[0].split()))


def own_names(page: str) -> str:
    """The page with names inside its pictures that are not used twice."""
    parts = re.split(r"(<svg.*?</svg>)", page, flags=re.DOTALL)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>p{i // 2}-", part)
    return "".join(parts)
