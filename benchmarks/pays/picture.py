"""Quality over cost, one panel for every cell and text, as SVG that is readable on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from leanrnn.lab.report.drawing import COLOURS

__all__ = ["COLOUR", "Point", "picture"]

SHOWN = ("ours", "found", "uniform", "saliency", "norm", "refit", "gradual", "gates", "paper", "lean")
COLOUR = {**dict(zip(SHOWN, (*COLOURS, "#99683f", "#c0508f"), strict=False)), "dense": "currentColor"}
WIDE, HIGH, LEFT, TOP, GAP = 250, 210, 40, 28, 34
STYLE = """<style>
svg { color: #1f2328 } text { font: 11px system-ui, sans-serif; fill: currentColor } .title { font-weight: 600 }
.axis { stroke: currentColor; stroke-opacity: .5 } .grid { stroke: currentColor; stroke-opacity: .12 }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }
</style>"""


class Point(NamedTuple):
    """One arm in one case."""

    task: str
    arm: str
    taught: bool
    mult_adds: float
    perplexity: float


class Scale(NamedTuple):
    """From numbers to places: logarithms along an axis."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where it is."""
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)


def picture(points: Sequence[Point], titles: Mapping[str, str]) -> str:
    """Circles are arms without a teacher, diamonds those with one; a line joins the cases of an arm."""
    tasks = list(dict.fromkeys(point.task for point in points if point.arm != "dense"))
    points = [point for point in points if point.task in tasks]
    arms = [arm for arm in ("dense", *SHOWN) if any(point.arm == arm for point in points)]
    panels = [_panel(task, [p for p in points if p.task == task], i) for i, task in enumerate(tasks)]
    wide, under = max(1, len(tasks)) * (WIDE + GAP) + LEFT, TOP + HIGH + 52
    legend = [_legend(arm, titles[arm], 8 + i % 3 * (wide - 8) / 3, under + i // 3 * 17) for i, arm in enumerate(arms)]
    marks_at = under + -(-len(arms) // 3) * 17
    marks = f'<text x="8" y="{marks_at + 4}">● without a teacher   ◆ with a teacher</text>'
    told = "Test perplexity over mult-adds a word, for all ways to a smaller model"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {marks_at + 14}" role="img" aria-label="{told}">'
    )
    return "\n".join([head, STYLE, *panels, *legend, marks, "</svg>\n"])


def _panel(task: str, points: Sequence[Point], number: int) -> str:
    left = LEFT + number * (WIDE + GAP)
    x = _scale([p.mult_adds / 1e3 for p in points], left, left + WIDE)
    y = _scale([p.perplexity for p in points], TOP + HIGH, TOP)
    parts = [f'<text class="title" x="{left}" y="{TOP - 12}">{escape(task)}</text>']
    for value in _ticks(y):
        parts.append(
            f'<line class="grid" x1="{left}" x2="{left + WIDE}" y1="{y.at(value):.1f}" y2="{y.at(value):.1f}"/>'
        )
        parts.append(f'<text text-anchor="end" x="{left - 5}" y="{y.at(value) + 4:.1f}">{value:g}</text>')
    for value in _ticks(x):
        parts.append(f'<text text-anchor="middle" x="{x.at(value):.1f}" y="{TOP + HIGH + 15}">{value:g}</text>')
    parts.append(f'<path class="axis" fill="none" d="M{left} {TOP}V{TOP + HIGH}H{left + WIDE}"/>')
    parts.append(f'<text x="{left}" y="{TOP + HIGH + 31}">thousand mult-adds a word; test perplexity</text>')
    for arm in (*reversed(SHOWN), "dense"):
        for taught in (False, True):
            these = sorted((p for p in points if (p.arm, p.taught) == (arm, taught)), key=lambda p: p.mult_adds)
            places = [(x.at(p.mult_adds / 1e3), y.at(p.perplexity)) for p in these]
            if len(places) > 1:
                line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
                dashes = ' stroke-dasharray="4 3"' if taught else ""
                parts.append(
                    f'<polyline fill="none" stroke="{COLOUR[arm]}" stroke-opacity=".6"{dashes} points="{line}"/>'
                )
            parts += [_mark(arm, taught, *place) for place in places]
    return "\n".join(parts)


def _mark(arm: str, taught: bool, x: float, y: float) -> str:
    size = 5.5 if arm == "ours" else 4
    if arm == "dense":
        return f'<rect fill="{COLOUR[arm]}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    if taught:
        d = f"M{x:.1f} {y - size - 1:.1f}l{size + 1} {size + 1}l{-size - 1} {size + 1}l{-size - 1} {-size - 1}z"
        return f'<path fill="{COLOUR[arm]}" d="{d}"/>'
    return f'<circle fill="{COLOUR[arm]}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'


def _legend(arm: str, title: str, x: float, y: float) -> str:
    return f'{_mark(arm, False, x, y)}<text x="{x + 10:.0f}" y="{y + 4}">{escape(title)}</text>'


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    low, high = min(values, default=1.0), max(values, default=2.0)
    return Scale(low / 1.06, high * 1.06, start, end)


def _ticks(scale: Scale) -> list[float]:
    """Some five round numbers."""
    rough = (scale.high - scale.low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    first = math.ceil(scale.low / step)
    return [n * step for n in range(first, math.floor(scale.high / step) + 1)]
