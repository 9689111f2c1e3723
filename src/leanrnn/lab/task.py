"""What a recipe is of: how its data is read, its model trained, loaded, fed and exported. A module each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from leanrnn.deploy import Exported
    from leanrnn.lab.runs import Run

__all__ = ["Data", "Event", "Task", "task_named", "task_of"]

HOMES = {"language": "leanrnn.lab.language.task", "squad": "leanrnn.lab.squad.task"}


class Data(Protocol):
    """What is trained on."""

    @property
    def digest(self) -> str:
        """Tells it from other data."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know, a line each."""


class Event(Protocol):
    """Something that happened in training: a dataclass, and a line of the metrics."""

    @property
    def widths(self) -> dict[str, int]:
        """Of every layer."""

    @property
    def alive(self) -> dict[str, int]:
        """Components of every layer that are not dead."""

    def part(self, config: Any) -> tuple[float, str]:
        """How much of the run is done, and what to say of it."""

    def line(self, config: Any) -> str:
        """What to print, if anything."""


class Task(Protocol):
    """The functions of such a module. ::

    model = task_of(path).load(path)
    """

    def read(self, config: Any, folder: Path | None, tell: Callable[[str, int, int], None]) -> Data:
        """The data; ``tell`` is told what is done, how much of it, and how much there is."""

    def train(
        self, config: Any, data: Any, run: Run, *, start: Path | None, device: str, save_seconds: float,
        stopped: Callable[[], bool],
    ) -> Iterator[Event]:  # fmt: skip
        """Train to the end, or until it is stopped."""

    def told(self, result: Mapping[str, Any]) -> list[str]:
        """What to print when a run has ended."""

    def load(self, path: Path) -> Any:
        """The model of a file that a run has written."""

    def inputs(self, about: Mapping[str, Any], batch: int, steps: int) -> Any:
        """Inputs of this size for a model of a file that says this about itself."""

    def sizes(self, model: Any) -> dict[str, Any]:
        """What a model has, by name."""

    def export(self, source: Path, out: Path, *, steps: int, opset: int) -> Exported:
        """Write the model of a file for other runtimes."""

    def evaluator(self, path: Path, data: Path) -> tuple[str, Callable[[Path], float]]:
        """What an exported file is judged by, and how."""


def task_named(name: str) -> Task:
    """The task of a recipe, by ``recipe.task``."""
    return cast(Task, import_module(HOMES[name]))


def task_of(about: Mapping[str, Any]) -> Task:
    """The task of a model, by what its file says about it. ::

    task_of(leanrnn.about(path)).load(path)
    """
    return task_named(about.get("task", "language"))
