"""What commands print: tables of plain columns, or JSON and nothing else; notes beside both."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO

from leanrnn.errors import LeanRNNWarning

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

__all__ = [
    "Tell", "notes_for_warnings", "only_json", "print_entries", "print_json", "print_note", "print_table", "progress",
    "reading",
]  # fmt: skip

Tell = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and how much there is."""

_answers: list[TextIO] = []
"""Where JSON goes while all else is sent elsewhere."""


@contextmanager
def only_json() -> Iterator[None]:
    """Inside, what anybody prints goes to standard error, a user's own code too; standard output has the JSON alone. ::

    with only_json():
        print("loading")  # standard error
        print_json({"weights": 288})
    """
    _answers.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _answers.pop()


def print_note(text: object) -> None:
    """Something a user should know, on standard error."""
    print(f"note: {' '.join(str(text).split())}", file=sys.stderr)


@contextmanager
def notes_for_warnings() -> Iterator[None]:
    """Inside, what leanrnn warns of is a note, a line without the place in the code; other warnings are as ever. ::

    with notes_for_warnings():
        leanrnn.shrink(model, groups)  # note: nothing was cut: ...
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", LeanRNNWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, LeanRNNWarning):
                print_note(message)
            else:
                others(message, category, *where, **more)

        warnings.showwarning = show
        yield


def print_json(data: Any, *, line: bool = False) -> None:
    """Plain data on standard output, for other programs; in one line if there are to be several."""
    text = json.dumps(_plain(data), indent=None if line else 1, allow_nan=False)
    print(text, file=_answers[-1] if _answers else sys.stdout, flush=True)


def _plain(data: Any) -> Any:
    """The same with null for numbers that JSON does not have, as of a run that diverged."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    return [_plain(value) for value in data] if isinstance(data, list | tuple) else data


def print_entries(entries: Sequence[tuple[str, str]]) -> None:
    """Names with a text each, which is wrapped beside the names, within 80 columns. ::

    print_entries([("text", "your own text: a file, or a folder of them")])
    """
    width = max(len(name) for name, _ in entries) + 4
    for name, text in entries:
        first, rest = f"  {name}".ljust(width), " " * width
        print(fill(text, 80, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False))


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as what is in them. ::

    print_table([("name", "value"), ("weights", "1,244,700")])
    """
    lines = list(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def progress(console: Console | None = None) -> Progress:
    """A bar with the time left, and what is done in front of it; together no wider than 80 columns."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TimeRemainingColumn(), TextColumn("left"))
    return Progress(*columns, console=console)


@contextmanager
def reading(as_json: bool) -> Iterator[Tell]:
    """Bars on standard error for what takes a while. ::

    with reading(as_json=False) as tell:
        tell("reading dev-v1.1.json", 100, 2067)
    """
    from rich.console import Console

    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield lambda *_: None
        return
    with progress(console) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)

        yield tell
