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
from leanrnn.lab.report.tables import Table, environments_table, layers_table, runs_table, times_table
from leanrnn.lab.report.words import sentence, summary, title

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
    sections = [("runs", "The runs", [_table(runs_table(stories), "All runs"), *_trade(stories)])]
    if rows:
        sections.append(("times", "How fast they are", list(_times(rows, stories))))
    sections += [(f"run-{i + 1}", story.name, list(_run(story, stories))) for i, story in enumerate(stories)]
    sections.append(("again", "To do it again", list(_again(stories, measured, command))))
    head = escape(title(stories))
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in sections)
    body = [f"<h1>{head}</h1>", f'<p class="lead">{_words(summary(stories, rows))}</p>']
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


def _trade(stories: Sequence[Story]) -> Iterable[str]:
    """Quality against size, where there is anything to compare."""
    if len({story.mult_adds for story in stories}) == 1:
        return
    told = f"A point a run; further left is smaller, {'lower' if stories[0].wording.lower else 'higher'} is better."
    pairs = [(mark, story.name) for mark, story in zip(figures.marks(stories), stories, strict=True)]
    if any(mark != name for mark, name in pairs):
        told += " The runs are " + ", ".join(f"{mark} {name}" for mark, name in pairs) + "."
    yield _figure(figures.trade(stories), told, "two")


def _times(rows: Sequence[dict[str, Any]], stories: Sequence[Story]) -> Iterable[str]:
    told = f"{stories[0].wording.call}. A point is the median, its line goes from quartile to quartile; less is better."
    if any(row["noisy"] for row in rows):
        told += " Long lines tell of other work on the machine: time these again when it is idle."
    yield _figure(figures.latency(rows, [story.name for story in stories]), told, "two")
    yield _folded("All times, with files and memory", _table(times_table(rows), "Times"))


def _run(story: Story, stories: Sequence[Story]) -> Iterable[str]:
    """How it went, what is left, and who reads what; short where nothing was cut."""
    if len(stories) > 1:
        yield f"<p>{_words(sentence(story))}</p>"
    yield _figure(figures.course(story, stories), f"{story.wording.note} {figures.pace(story)}", "two")
    yield from _weights(story)
    if story.cut or story.sparse:
        yield "<h3>Norms of the groups</h3>"
        told = "How many groups have which norm. One at zero is dead: nothing reads it; the finished model is without."
        yield _figure(figures.norms(story, stories), told, "three")
    pins = "" if story.groups.pinned else " No width is pinned: every one of them could shrink."
    layers = _table(layers_table(story), f"Layers of {story.name}")
    layers += f'<p class="note">A group is every weight that leaves with a component.{pins}</p>'
    yield _folded("Layers, and who reads them", layers)


def _weights(story: Story) -> Iterable[str]:
    """Where they are not zero; where all of them are there, a picture would be one colour."""
    if not story.cut and (part := zeros(story)) < FEW:
        if story.sparse:
            yield f'<p class="note">Nothing was cut out, and {f"only {part:.2%}" if part else "no weight"} is zero.</p>'
        return
    yield f"<h3>{'What is left of the weights' if story.cut else 'Weights'}</h3>"
    told = "Grey where a weight is not zero, faint where it is; rows and columns are sampled evenly."
    if story.cut:
        told += (
            " Before the cut, what went is empty: rows and columns as a whole, and those of a component everywhere. "
            "After it, to the same scale, what is stored is dense."
        )
    yield _figure(strips(story), told, "two")


def _again(stories: Sequence[Story], measured: Mapping[str, str] | None, command: str) -> Iterable[str]:
    """Commands, settings, environment."""
    commands = dict.fromkeys([*map(train_command, stories), command])
    yield "".join(map(_command, commands))
    for story in stories:
        settings = "\n".join(f"{key} = {value}" for key, value in story.config.items())
        yield _folded(f"All settings of {story.name}", f"<pre>{escape(settings)}</pre>")
    yield _folded("Environment", _table(environments_table(stories, measured), "Environment"))


def _folded(name: str, text: str) -> str:
    return f"<details><summary>{escape(name)}</summary>{text}</details>"


def _words(text: str) -> str:
    return escape(text).replace("e-0", "e&#8209;0")  # a small number is not broken at its hyphen


def _command(text: str) -> str:
    """A command that is only broken before an option, not at the hyphens inside."""
    words = re.split(r" (?=--)", text)
    return "<pre>" + " ".join(f"<span>{escape(word)}</span>" for word in words) + "</pre>"


def _figure(panels: Iterable[str], told: str, columns: str) -> str:
    joined = "\n".join(panels)
    return f'<figure><div class="panels {columns}">{joined}</div><figcaption>{escape(told)}</figcaption></figure>'


def _table(table: Table, name: str) -> str:
    """A table that scrolls inside itself; on a phone its rows stand below each other, a line a cell."""
    head, rows = table
    kinds = [_kind([row[i] for row in rows]) for i in range(len(head))]
    top = "".join(
        f'<th scope="col" role="columnheader"{kind}>{escape(text)}</th>' for text, kind in zip(head, kinds, strict=True)
    )
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f'<td role="cell"{kind} data-head="{escape(name, quote=True)}">{escape(text)}</td>'
            for name, text, kind in zip(head[1:], rest, kinds[1:], strict=True)
        )
        body += f'<tr role="row"><th scope="row" role="rowheader">{escape(first)}</th>{cells}</tr>\n'
    many = ' class="many"' if len(rows) > 12 else ""
    label = f'role="region" aria-label="{escape(name, quote=True)}" tabindex="0"'
    return (
        f'<div class="scroll" {label}><table role="table"{many}>'
        f'<thead role="rowgroup"><tr role="row">{top}</tr></thead><tbody role="rowgroup">\n{body}</tbody></table></div>'
    )


def _kind(cells: Sequence[str]) -> str:
    """Numbers stand under each other to the right, words to the left; long ones may be broken."""
    if any(len(cell) > 40 for cell in cells) and not any(cell[:1].isdigit() for cell in cells):
        return ' class="words long"'
    return "" if 2 * sum(cell[:1].isdigit() for cell in cells) >= len(cells) else ' class="words"'
