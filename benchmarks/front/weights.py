"""Draws docs/weights.svg: the weights of a run before the cut, with the strips that went, and after it.

python -m benchmarks front weights leanrnn-demo/lean      # after `leanrnn demo`
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import DOCS
from benchmarks.pays.picture import STYLE
from leanrnn.lab.report.drawing import own_names
from leanrnn.lab.report.story import read_stories
from leanrnn.lab.report.strips import strips

__all__ = ["beside", "main"]

GAP = 12


def beside(panels: Sequence[str], told: str) -> str:
    """Pictures in two columns, as one that is readable on a light and on a dark page."""
    sizes = [tuple(map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', panel)[0])) for panel in panels]
    wide, y, parts = max(size[0] for size in sizes), 0.0, []
    for row in range(0, len(panels), 2):
        for column, (panel, (w, h)) in enumerate(zip(panels[row : row + 2], sizes[row : row + 2], strict=True)):
            place = f'<svg x="{column * (wide + GAP):g}" y="{y:g}" width="{w:g}" height="{h:g}"'
            parts.append(panel.replace("<svg", place, 1))
        y += max(size[1] for size in sizes[row : row + 2]) + GAP
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} viewBox="0 0 {2 * wide + GAP:g} {y:g}" role="img" aria-label="{told}">'
    return "\n".join([head, STYLE, own_names("\n".join(parts)), "</svg>", ""])


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Read the run, draw its recurrent layers."""
    parser.add_argument("run", type=Path)
    options = parser.parse_args(words)
    [story] = read_stories([options.run])
    sizes = (
        f"from {', '.join(map(str, story.first.values()))} units to {', '.join(map(str, story.groups.widths.values()))}"
    )
    (DOCS / "weights.svg").write_text(beside(strips(story)[:4], f"Weights before and after the cut, {sizes}"))
