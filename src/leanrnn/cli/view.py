"""What a user sees of a run: a bar with the time left in a terminal, lines elsewhere, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast

from rich.console import Console
from rich.progress import Progress

from leanrnn.cli.printing import print_json, print_note, progress
from leanrnn.lab.runs import Run
from leanrnn.lab.task import Event, Task

__all__ = ["View", "view"]


class View:
    """Shows the events of one run."""

    def __init__(self, config: Any, run: Run, as_json: bool, bar: Progress | None, quiet: bool = False) -> None:
        self.config, self.run, self.as_json, self.bar, self.quiet = config, run, as_json, bar, quiet
        self.console = bar.console if bar else Console()
        self.task = bar.add_task("", total=1.0) if bar else None
        self.warned = False

    def notes(self, lines: Iterable[str]) -> None:
        """Something a user should know."""
        for line in lines:
            if not self.quiet:
                print_note(line)

    def begin(self, lines: list[str]) -> None:
        """What there is before the first step."""
        if not (self.as_json or self.quiet):
            for line in lines:
                self.console.print(line, highlight=False, soft_wrap=True)

    def event(self, event: Event) -> None:
        """It moves the bar, and may be a line."""
        if self.quiet:
            return
        self.notes([*self.run.notes, *self._warning(event)])
        self.run.notes.clear()
        if self.as_json:
            print_json({"kind": type(event).__name__.lower(), **asdict(cast(Any, event))}, line=True)
            return
        if self.bar and self.task is not None:
            done, told = event.part(self.config)
            self.bar.update(self.task, completed=done, description=told)
        if line := event.line(self.config):
            self.console.print(line, highlight=False, soft_wrap=True)

    def result(self, task: Task, result: Mapping[str, Any]) -> None:
        """The end of the story."""
        print("\n".join(task.summary(result)))
        print(f"the model is {self.run.folder / 'model.safetensors'}")

    def _warning(self, event: Event) -> list[str]:
        """Once, when a layer has nothing left to lose."""
        dead = [] if self.warned else [name for name, count in event.alive.items() if not count]
        self.warned = self.warned or bool(dead)
        hint = f"the strength of {self.config.strength:g} is too large. Stop, and try a third of it in a new folder."
        return [f"all components of {', '.join(dead)} are dead: {hint}"] if dead else []


@contextmanager
def view(config: Any, run: Run, as_json: bool, quiet: bool = False) -> Iterator[View]:
    """A view for the terminal or the file that standard output is; a quiet one shows nothing. ::

    with view(config, run, as_json=False) as show:
        show.event(event)
    """
    console = Console()
    if quiet or as_json or not console.is_terminal:
        yield View(config, run, as_json, None, quiet)
        return
    with progress(console) as bar:
        yield View(config, run, as_json, bar)
