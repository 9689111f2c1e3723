"""``leanrnn train``: a recipe, on data of a user."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from leanrnn.cli.artefacts import trained
from leanrnn.cli.parsing import MaybeInt, MaybePath, parsed
from leanrnn.cli.printing import print_json, reading
from leanrnn.cli.sections import joined, sectioned
from leanrnn.cli.stopping import signals
from leanrnn.errors import ConfigError, RunError
from leanrnn.lab import Config, named
from leanrnn.lab.settings import from_toml

__all__ = ["Train", "parse_train"]


@dataclass(frozen=True)
class Train:
    """Train a recipe (leanrnn ls lists them). After an interruption, the same command continues the run.

    All settings below may also be in a TOML file, one `name = value` a line."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of the recipe."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder or file of the data. The variable LEANRNN_DATA can name it instead."""
    out: MaybePath = None
    """Folder of the run; runs/RECIPE if not given."""
    start: MaybePath = None
    """A run, or a file it has written, whose model is trained further."""
    teacher: MaybePath = None
    """A run, or a file it has written, whose model is the teacher (see --taught)."""
    config: MaybePath = None
    """A TOML file with settings. Options on the command line override it."""
    threads: MaybeInt = None
    """Threads PyTorch may use. The same number gives the same result, bit for bit."""
    device: str = "auto"
    """Where to train: cpu, cuda, mps; auto takes an accelerator if there is one."""
    save_seconds: float = 300.0
    """Seconds between checkpoints. One is also written after every epoch."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too (pip install leanrnn[tensorboard])."""
    json: bool = False
    """Print the metrics and the result as JSON, a line each, instead of a progress bar."""
    settings: tyro.conf.Suppress[Any] = None
    """What is trained, and how: the settings of the recipe, and of the options that stand for them."""

    def run(self) -> int:
        """Train to the end; 130 if it was interrupted."""
        from leanrnn.cli.board import Board
        from leanrnn.cli.view import view
        from leanrnn.environment import check_folder, hold_memory, use_threads
        from leanrnn.lab.ranks import joined
        from leanrnn.lab.runs import Run
        from leanrnn.lab.task import task_named

        recipe, folder = named(self.recipe), self.out or Path("runs") / self.recipe
        if recipe.start and self.start is None:
            raise ConfigError(
                f"{self.recipe} begins with a trained model. Train {recipe.start} first and give "
                f"--start runs/{recipe.start}."
            )
        use_threads(self.threads)
        if self.save_seconds < 0:
            raise ConfigError(f"save_seconds is {self.save_seconds:g}. Give at least 0.")
        check_folder(folder, RunError)
        for source in (self.start, self.teacher):
            if source is not None:
                trained(source)
        settings = self.settings
        if settings.budget:
            settings.aim()  # what is no budget is told before data is read
        hold_memory()
        task, device = task_named(recipe.task), _device(self.device)
        with reading(self.json) as tell:
            data = task.read(settings, self.data, tell)
        about = {
            "recipe": self.recipe,
            "config": settings.to_json(),
            "text": data.digest,
            "start": _name(self.start),
            "teacher": _name(self.teacher),
        }
        started = {"data": _name(self.data)}
        with (
            joined(device) as (ranks, place),
            Run.open(folder, about, started, {"config": type(settings)().to_json()}, ranks) as run,
            signals(ranks.world > 1) as stopped,
            view(settings, run, self.json, quiet=not ranks.first) as show,
        ):
            show.notes(data.notes)
            board = Board(run, self.tensorboard and ranks.first)
            if run.result() is None:
                events = task.train(
                    settings, data, run, start=self.start, teacher=self.teacher, device=place,
                    save_seconds=self.save_seconds, stopped=stopped.is_set, told=show.begin, ranks=ranks,
                )  # fmt: skip
                for event in events:
                    show.event(event)
                    board.event(event)
            show.notes(run.notes)
            ranks.wait()  # the first writes the result
            if (result := run.result()) is None:
                if ranks.first:
                    print(f"stopped. Everything is in {folder}; the same command continues.", file=sys.stderr)
                return 130
        if not ranks.first:
            return 0
        if self.json:
            print_json({"kind": "result", **result}, line=True)
        else:
            show.result(task, result)
        return 0


def parse_train(arguments: Sequence[str], about: str = "") -> Train:
    """The command, with the settings of the recipe (and of a TOML file) as defaults of its options."""
    first = [text for text in arguments[:1] if not text.startswith("-")]
    recipe = first[0] if first else ""
    settings: Any = named(recipe).config if recipe else Config()
    for _ in range(2):  # the second time with what the file of the first says
        # The options are those of the recipe's own settings.
        kind = sectioned(Train, settings)
        default = kind(recipe=recipe) if recipe else tyro.MISSING_NONPROP
        given = parsed(kind, f"train {recipe}".rstrip(), about, arguments, default)
        command: Train = replace(given, settings=joined(settings, given))
        if command.config is None:
            break
        settings = from_toml(settings, command.config)
    return command


def _device(name: str) -> str:
    """A device that torch has here."""
    import torch

    if name == "auto":
        found = torch.accelerator.current_accelerator()
        return found.type if found is not None and torch.accelerator.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"there is no device {name!r} here ({reason}). Choose cpu, or auto.") from error
    return name


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)
