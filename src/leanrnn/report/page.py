"""One HTML page, complete in itself: no script, nothing from elsewhere, light and dark, for screens of any width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from leanrnn import __version__
from leanrnn.report import figures
from leanrnn.report.story import Story
from leanrnn.report.words import RUNS, layers_table, runs_table, summary, times_table

__all__ = ["html"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fdfdfb; --soft: #5a6675; --line: #d9dee4; --link: #2a62a0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --paper: #14181e; --soft: #9aa6b4; --line: #323a45; --link: #86b6ec; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 50rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; } p, li { max-width: 42rem; }
a { color: var(--link); } nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0; }
.lead { font-size: 1.1rem; } figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; display: block; }
figcaption, .note { color: var(--soft); font-size: .88rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } td.long { white-space: normal; text-align: left; }
thead th { color: var(--soft); font-weight: 600; } code, pre { font: .85rem/1.5 ui-monospace, monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid var(--line); padding-left: .75rem; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media print { body { max-width: none; padding: 0; } nav { display: none; } figure, table { break-inside: avoid; } }
"""


def html(stories: Sequence[Story], rows: Sequence[dict[str, Any]]) -> str:
    """The page for these runs; ``rows`` are measured times, if there are any. ::

    Path("report.html").write_text(html([read_story(Path("runs/text"))], []))
    """
    title = "What became of " + " and ".join(story.name for story in stories)
    parts = [f"<h1>{escape(title)}</h1>", *(f'<p class="lead">{escape(text)}</p>' for text in summary(stories))]
    sections = {"runs": "The runs", **({"trade": "Quality against size"} if len(stories) > 1 else {})}
    sections |= {"times": "How fast they are"} if rows else {}
    sections |= {f"run-{i}": f"{story.name}" for i, story in enumerate(stories)} | {"again": "To do it again"}
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name in sections.items())
    parts.append(f'<nav aria-label="Sections"><ul>{links}</ul></nav>')
    parts += [_heading("runs", sections), _table(RUNS, runs_table(stories), "All runs")]
    if len(stories) > 1:
        told = f"Validation perplexity and mult-adds a word of {len(stories)} runs; further left and lower is better."
        parts += [_heading("trade", sections), _figure(figures.trade(stories), told)]
    if rows:
        head, lines = times_table(rows)
        told = f"Milliseconds for a call with {rows[0]['threads']} threads, the median; less is better."
        parts += [_heading("times", sections), _figure(figures.latency(rows), told), _table(head, lines, "Times")]
    for i, story in enumerate(stories):
        parts += [_heading(f"run-{i}", sections), *_run(story)]
    parts += [_heading("again", sections), *_again(stories)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + f'\n</main>\n<footer><p class="note">Written by leanrnn {__version__}.</p></footer>\n</body>\n</html>\n'
    )


def _run(story: Story) -> Iterable[str]:
    first, last = story.epochs[0], story.epochs[-1]
    yield "<h3>How it went</h3>"
    yield _figure(
        figures.course(story),
        f"Perplexity of the validation text from {first['valid']:.1f} to {last['valid']:.1f} in {len(story.epochs)} "
        "epochs (training text: as it was while training, with dropout); components alive in every layer; seconds of "
        "training an epoch.",
    )
    yield "<h3>What is left of the weights</h3>"
    yield _figure(
        figures.strips(story),
        "Input and recurrent weights of every layer side by side, dark where they are not zero, sampled. Left: where "
        "they were at first. Right, to the same scale: what is stored, rows and columns without a hole.",
    )
    yield "<h3>How strong the survivors are</h3>"
    yield _figure(
        figures.norms(story),
        "Norms of the groups that are left. Far from zero, a penalty would have to work long to remove more.",
    )
    yield "<h3>Layers</h3>"
    head, rows = layers_table(story)
    yield _table(head, rows, f"Layers of {story.name}")


def _again(stories: Sequence[Story]) -> Iterable[str]:
    for story in stories:
        settings = "\n".join(f"{key} = {value}" for key, value in story.config.items())
        yield f"<h3>{escape(story.name)}</h3><pre>{escape(story.command)}</pre>"
        yield f"<details><summary>All settings</summary><pre>{escape(settings)}</pre></details>"
    machine = [[name, value] for name, value in stories[0].environment.items() if isinstance(value, str)]
    yield _table(["", "trained on"], machine, "Environment")


def _heading(key: str, sections: dict[str, str]) -> str:
    return f'<h2 id="{key}">{escape(sections[key])}</h2>'


def _figure(svg: str, told: str) -> str:
    named = svg.replace("<svg", f'<svg role="img" aria-label="{escape(told, quote=True)}"', 1)
    return f"<figure>{named}<figcaption>{escape(told)}</figcaption></figure>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """A table that scrolls inside itself where the screen is narrow."""
    top = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(f'<td class="long">{escape(t)}</td>' if len(t) > 40 else f"<td>{escape(t)}</td>" for t in rest)
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    label = f'role="region" aria-label="{escape(name, quote=True)}" tabindex="0"'
    return f'<div class="scroll" {label}><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
