"""What a recipe is of: how data is read, and a model trained, loaded, fed, exported and told about. An object each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from leanrnn.deploy import Exported
    from leanrnn.lab.ranks import Ranks
    from leanrnn.lab.runs import Run
    from leanrnn.lab.wording import Wording

__all__ = ["TASKS", "Data", "Event", "Task", "task_named", "task_of"]


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

    def part(self, config: Any, /) -> tuple[float, str]:
        """How much of the run is done, and what to say of it."""

    def line(self, config: Any, /) -> str:
        """What to print, if anything."""


class Task(Protocol):
    """Everything that commands and the report need of a task; settings, data and models are of its own types. ::

    model = task_of(leanrnn.about(path)).load(path)
    """

    @property
    def wording(self) -> Wording:
        """The words for its runs."""

    @property
    def head(self) -> str:
        """Name of the matrix of the layer over all words; empty if there is none."""

    @property
    def tokens(self) -> int:
        """Words of a sequence that is long enough to tell what a word costs."""

    def read(self, config: Any, folder: Path | None, tell: Callable[[str, int, int], None], /) -> Data:
        """The data; ``tell`` is called with what is done, how much of it, and how much there is."""

    def train(
        self, config: Any, data: Any, run: Run, /, *, start: Path | None, teacher: Path | None, device: str,
        save_seconds: float, stopped: Callable[[], bool], told: Callable[[list[str]], object], ranks: Ranks,
    ) -> Iterator[Event]:  # fmt: skip
        """Train to the end, or until it is stopped; what it begins with is told in a few lines."""

    def summary(self, result: Mapping[str, Any], /) -> list[str]:
        """What to print when a run has ended."""

    def load(self, path: Path, /) -> Any:
        """The model of a file that a run has written."""

    def first(self, about: Mapping[str, Any], /) -> Any:
        """The dense model that such a file says it comes from."""

    def inputs(self, about: Mapping[str, Any], batch: int, tokens: int, /) -> Any:
        """Inputs of this size for a model of a file that says this about itself."""

    def sizes(self, model: Any, /) -> dict[str, Any]:
        """What a model has, by name."""

    def learned(self, model: Any, config: Mapping[str, Any], /) -> dict[str, int]:
        """The widths of a model that these settings let it learn, by the names they have in the groups."""

    def export(self, source: Path, out: Path, /, *, steps: int, opset: int) -> Exported:
        """Write the model of a file for other runtimes."""

    def evaluator(self, path: Path, data: Path, /) -> tuple[str, Callable[[Path], float]]:
        """What an exported file is judged by, and how."""


def _language() -> Task:
    from leanrnn.lab.language.task import LANGUAGE

    return LANGUAGE


def _squad() -> Task:
    from leanrnn.lab.squad.task import SQUAD

    return SQUAD


TASKS: dict[str, Callable[[], Task]] = {"language": _language, "squad": _squad}
"""By name; each loads PyTorch when it is asked for, so that ``leanrnn --help`` does not."""


def task_named(name: str) -> Task:
    """The task of a recipe. ::

    task_named(recipe.task).read(recipe.config, Path("data"), print)
    """
    return TASKS[name]()


def task_of(about: Mapping[str, Any]) -> Task:
    """The task of a model, by what its file says about it. ::

    task_of(leanrnn.about(path)).load(path)
    """
    return task_named(about.get("task", "language"))
