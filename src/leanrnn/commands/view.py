"""What a user sees of a run: a bar with the time left in a terminal, a line an epoch elsewhere, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from leanrnn.recipes.config import Config
from leanrnn.recipes.loop import Epoch, Interval
from leanrnn.runs import Run

__all__ = ["View", "view"]


class View:
    """Shows the events of one run."""

    def __init__(self, config: Config, run: Run, as_json: bool, bar: Progress | None) -> None:
        self.config, self.run, self.as_json, self.bar = config, run, as_json, bar
        self.console = bar.console if bar else Console()
        self.task = bar.add_task("", total=float(config.epochs)) if bar else None
        self.warned = False

    def notes(self, lines: Iterable[str]) -> None:
        """Something a user should know."""
        for line in lines:
            print(f"note: {line}", file=sys.stderr)

    def event(self, event: Interval | Epoch) -> None:
        """An interval moves the bar, an epoch is a line."""
        self.notes([*self.run.notes, *self._warning(event)])
        self.run.notes.clear()
        if self.as_json:
            print(json.dumps({"kind": type(event).__name__.lower(), **asdict(event)}), flush=True)
            return
        if self.bar and self.task is not None:
            told = f"epoch {event.epoch:.1f}" if isinstance(event, Interval) else f"epoch {event.epoch}"
            self.bar.update(self.task, completed=float(event.epoch), description=told)
        if isinstance(event, Epoch):
            self.console.print(self._line(event), highlight=False, soft_wrap=True)

    def result(self, result: Mapping[str, Any]) -> None:
        """The end of the story."""
        widths = " + ".join(map(str, result["widths"]))
        print(f"perplexity {result['valid']:.2f} on the validation text, {result['test']:.2f} on the test text")
        print(f"{result['weights']:,} weights, embedding {result['embedding']}, layers {widths}")
        print(f"the model is {self.run.folder / 'model.safetensors'}")

    def _warning(self, event: Interval | Epoch) -> list[str]:
        """Once, when a layer has nothing left to lose."""
        dead = [] if self.warned else [name for name, count in event.alive.items() if not count]
        self.warned = self.warned or bool(dead)
        hint = f"the strength of {self.config.strength:g} is too large. Stop, and try a third of it in a new folder."
        return [f"all components of {', '.join(dead)} are dead: {hint}"] if dead else []

    def _line(self, event: Epoch) -> str:
        alive = "" if event.alive == event.widths else f", {_joined(event.alive)} alive"
        return (
            f"epoch {event.epoch:>2} of {self.config.epochs}  validation {event.valid:8.2f}  "
            f"training {event.train:8.2f}  widths {_joined(event.widths)}{alive}  {event.seconds:.1f} s"
        )


@contextmanager
def view(config: Config, run: Run, as_json: bool) -> Iterator[View]:
    """A view for the terminal or the file that standard output is. ::

    with view(config, run, as_json=False) as show:
        show.event(event)
    """
    console = Console()
    if as_json or not console.is_terminal:
        yield View(config, run, as_json, None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        yield View(config, run, as_json, bar)


def _joined(widths: Mapping[str, int]) -> str:
    return " + ".join(map(str, widths.values()))
