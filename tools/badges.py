"""Draws the badges of the README from what pyproject.toml says.

python -m tools.badges    # writes docs/badges.svg
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "badges.svg"
LETTER, PAD, HIGH, GAP = 6.65, 7, 20, 6
"""Width of a letter, space beside a text, height of a badge, space between two: all in pixels."""


def badges() -> list[tuple[str, str]]:
    """What stands on each: a name and a value."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = whole["project"]
    torch = next(text for text in project["dependencies"] if text.startswith("torch"))
    typed = "Typing :: Typed" in project["classifiers"] and whole["tool"]["mypy"]["strict"]
    return [
        ("python", project["requires-python"].replace(">=", "≥ ")),
        ("pytorch", torch.removeprefix("torch").replace(">=", "≥ ")),
        ("licence", project["license"]),
        *([("typed", "mypy strict")] if typed else []),
    ]


def drawn() -> str:
    """All of them side by side, readable on white and on black."""
    parts, x = [], 0.0
    for name, value in badges():
        for text, colour in ((name, "#4b5563"), (value, "#1d4ed8")):
            wide = round(len(text) * LETTER + 2 * PAD, 1)
            parts.append(f'<rect x="{x:g}" width="{wide:g}" height="{HIGH}" fill="{colour}"/>')
            parts.append(f'<text x="{x + wide / 2:g}" y="14" textLength="{wide - 2 * PAD:g}">{escape(text)}</text>')
            x = round(x + wide, 1)
        x += GAP
    told = ", ".join(f"{name} {value}" for name, value in badges())
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{x - GAP:g}" height="{HIGH}" role="img">'
    style = "text{font:11px DejaVu Sans Mono,Menlo,Consolas,monospace;fill:#fff;text-anchor:middle}"
    return "\n".join([head, f"<title>{escape(told)}</title><style>{style}</style>", *parts, "</svg>", ""])


if __name__ == "__main__":
    PAGE.write_text(drawn())
