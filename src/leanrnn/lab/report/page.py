"""One HTML page, complete in itself: no script, nothing from elsewhere, light and dark, for screens of any width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from leanrnn import __version__
from leanrnn.lab.report import figures
from leanrnn.lab.report.again import train_command
from leanrnn.lab.report.drawing import own_names
from leanrnn.lab.report.story import Story
from leanrnn.lab.report.strips import strips, zeros
from leanrnn.lab.report.style import STYLE
from leanrnn.lab.report.words import (
    Table,
    environments_table,
    layers_table,
    runs_table,
    summary,
    times_table,
    title,
)
from leanrnn.lab.wording import Wording

__all__ = ["html"]

# Whatever a page like this could fetch, it may not.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
FEW = 0.005
"""Zeros that nobody would see in a picture of the weights."""


def html(
    stories: Sequence[Story], rows: Sequence[dict[str, Any]], measured: Mapping[str, str] | None, command: str
) -> str:
    """The page for these runs. ``rows`` are measured times, if there are any, and ``measured`` is where; ``command`` is
    what the page was made with. ::

        Path("report.html").write_text(html(read_stories([Path("runs/text")]), [], None, "leanrnn report runs/text"))
    """
    told = summary(stories, rows)
    sections = [("runs", "The runs", [_table(runs_table(stories), "All runs")])]
    if len(stories) > 1:
        sections.append(("trade", "Quality against size", [_trade(stories)]))
    if rows:
        sections.append(
            ("times", "How fast they are", [_times(rows, stories[0].wording), _table(times_table(rows), "Times")])
        )
    sections += [(f"run-{i + 1}", story.name, list(_run(story, stories))) for i, story in enumerate(stories)]
    sections.append(("again", "To do it again", list(_again(stories, measured, command))))
    head = escape(title(stories))
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in sections)
    told = [escape(text).replace("e-0", "e&#8209;0") for text in told]  # a small number is not broken at its hyphen
    items = "".join(f"<li>{text}</li>" for text in told)
    body = [f"<h1>{head}</h1>", f'<ul class="told">{items}</ul>' if len(told) > 1 else f"<p>{told[0]}</p>"]
    body.append(f'<nav aria-label="Sections"><ul>{links}</ul></nav>')
    for key, name, parts in sections:
        body += [f'<section aria-labelledby="{key}"><h2 id="{key}">{escape(name)}</h2>', *parts, "</section>"]
    return own_names(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<link rel="icon" href="data:,">\n'
        f"<title>{head}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + f'\n</main>\n<footer><p class="note">Written by leanrnn {__version__}.</p></footer>\n</body>\n</html>\n'
    )


def _trade(stories: Sequence[Story]) -> str:
    told = f"A point a run; further left is smaller, {'lower' if stories[0].wording.lower else 'higher'} is better."
    pairs = [(mark, story.name) for mark, story in zip(figures.marks(stories), stories, strict=True)]
    if any(mark != name for mark, name in pairs):
        told += " The runs are " + ", ".join(f"{mark} {name}" for mark, name in pairs) + "."
    return _figure(figures.trade(stories), told, "two")


def _times(rows: Sequence[dict[str, Any]], wording: Wording) -> str:
    told = f"{wording.call}; the bars are medians, less is better. All models took turns."
    return _figure(figures.latency(rows), told, "two")


def _run(story: Story, stories: Sequence[Story]) -> Iterable[str]:
    """How it went, what is left, and who reads what."""
    cut = story.sizes != story.first_sizes
    yield "<h3>How it went</h3>"
    yield _figure(figures.course(story), f"{story.wording.note} Seconds are of training alone.", "three")
    yield from _weights(story, cut)
    yield "<h3>Norms of the groups</h3>"
    others = (other for other in stories if other is not story and not other.sparse)
    dense = (
        next((each for each in others if each.first_sizes == story.first_sizes == each.sizes), None) if cut else None
    )
    told = "How many groups have which norm. One at zero is dead: nothing reads it; the finished model is without it."
    yield _figure(figures.norms(story, dense), told, "three")
    yield "<h3>Layers and who reads them</h3>"
    yield _table(layers_table(story), f"Layers of {story.name}")
    pins = "" if story.groups.pinned else " No width is pinned: every one of them could shrink."
    yield f'<p class="note">A group is every weight that leaves with a component.{pins}</p>'


def _weights(story: Story, cut: bool) -> Iterable[str]:
    """Where they are not zero; where all of them are there, a picture would be one colour."""
    yield f"<h3>{'What is left of the weights' if cut else 'Weights'}</h3>"
    if not cut and (part := zeros(story)) < FEW:
        yield f'<p class="note">Nothing was cut out, and {f"only {part:.2%}" if part else "no weight"} is zero.</p>'
        return
    told = "Blue where a weight is not zero, faint where it is; rows and columns are sampled evenly."
    if cut:
        told += (
            " Before the cut, what went is empty: rows and columns as a whole, and those of a component everywhere. "
        )
        told += "After it, to the same scale, what is stored is dense."
    yield _figure(strips(story), told, "two")


def _again(stories: Sequence[Story], measured: Mapping[str, str] | None, command: str) -> Iterable[str]:
    """Commands, settings, environment."""
    for story in stories:
        settings = "\n".join(f"{key} = {value}" for key, value in story.config.items())
        yield f"<h3>{escape(story.name)}</h3>{_command(train_command(story))}"
        yield f"<details><summary>All settings of {escape(story.name)}</summary><pre>{escape(settings)}</pre></details>"
    yield f"<h3>This page</h3>{_command(command)}"
    yield "<h3>Environment</h3>"
    yield _table(environments_table(stories, measured), "Environment")


def _command(text: str) -> str:
    """A command that is only broken before an option, not at the hyphens inside."""
    words = re.split(r" (?=--)", text)
    return "<pre>" + " ".join(f"<span>{escape(word)}</span>" for word in words) + "</pre>"


def _figure(panels: Iterable[str], told: str, columns: str) -> str:
    joined = "\n".join(panels)
    return f'<figure><div class="panels {columns}">{joined}</div><figcaption>{escape(told)}</figcaption></figure>'


def _table(table: Table, name: str) -> str:
    """A table that scrolls inside itself where the screen is narrow."""
    head, rows = table
    kinds = [_kind([row[i] for row in rows]) for i in range(len(head))]
    top = "".join(f'<th scope="col"{kind}>{escape(text)}</th>' for text, kind in zip(head, kinds, strict=True))
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f"<td{kind}>{_cell(text, bool(kind) or len(head) < 6)}</td>"
            for text, kind in zip(rest, kinds[1:], strict=True)
        )
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>\n'
    many = ' class="many"' if len(rows) > 12 else ""
    label = f'role="region" aria-label="{escape(name, quote=True)}" tabindex="0"'
    return (
        f'<div class="scroll" {label}><table{many}><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div>'
    )


def _cell(text: str, narrow: bool) -> str:
    """Words, and sums of widths in a table of few columns, may be broken; nothing else."""
    return escape(text) if narrow else escape(text).replace(" ", "&nbsp;")


def _kind(cells: Sequence[str]) -> str:
    """Numbers stand under each other to the right, words to the left; long ones may be broken."""
    if any(len(cell) > 40 for cell in cells):
        return ' class="words long"'
    return "" if all(cell[:1].isdigit() or not cell for cell in cells) else ' class="words"'
