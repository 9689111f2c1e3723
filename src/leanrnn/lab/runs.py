"""A run folder: settings, environment, metrics, checkpoints, and a lock. Whatever happens, a run can be resumed.

A checkpoint is a folder of its own that appears in one piece or not at all; the one before it is kept. ::

    config.json  environment.jsonl  metrics.jsonl  checkpoints/00001327/  model.safetensors  result.json
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from leanrnn import save
from leanrnn.environment import environment
from leanrnn.errors import RunError
from leanrnn.lab.disk import digest, locked, plain_errors, to_disk, write_whole
from leanrnn.lab.ranks import ALONE, Ranks
from leanrnn.surgery import write_tensors

__all__ = ["Run", "Saved", "model_file"]

CHECKPOINTS = 2
"""Checkpoints that stay: the newest, and one to fall back on."""
TENSORS, MODEL, REST = "tensors.safetensors", "model.safetensors", "rest.json"


@dataclass(frozen=True)
class Saved:
    """A checkpoint as it was read: the file of the model, further tensors, and plain data."""

    model: Path
    tensors: dict[str, Tensor]
    data: dict[str, Any]


class Run:
    """A folder one process trains in. ::

    with Run.open(Path("runs/mine"), {"config": config.to_json()}) as run:
        saved = run.latest()
        run.log({"step": 1, "loss": 2.3})
        run.save(1, model, {"rng": torch.get_rng_state()}, {"epoch": 0})
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, list[str]()
        """The folder, and what a user should know of it."""

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        settings: Mapping[str, Any],
        started: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        ranks: Ranks = ALONE,
    ) -> Iterator[Run]:
        """Make the folder, or go on in one that was made with the same settings; nobody else may use it meanwhile.
        ``started`` may differ from start to start, and is kept with the environment; ``defaults`` are what settings
        were before there was a name for them. Of several ``ranks`` the first writes, and the others read."""
        if not ranks.first:
            ranks.wait()
            yield _Beside(folder)
            return
        run = cls(folder)
        with plain_errors(folder):
            run.checkpoints.mkdir(parents=True, exist_ok=True)
        with plain_errors(folder), locked(folder / "lock"):
            run._agree(settings, defaults or {})
            run._tidy()
            with (folder / "environment.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({**environment(), **(started or {})}) + "\n")
            ranks.wait()
            yield run

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One JSON object a line."""
        return self.folder / "metrics.jsonl"

    def log(self, line: Mapping[str, Any]) -> None:
        """Append a line to the metrics."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save(
        self,
        step: int,
        model: nn.Module,
        tensors: Mapping[str, Tensor],
        data: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a checkpoint; the oldest one goes. ``about`` is for the file of the model."""
        length = self.metrics.stat().st_size if self.metrics.exists() else 0
        place = Path(tempfile.mkdtemp(prefix=".writing-", dir=self.checkpoints))
        try:
            save(model, place / MODEL, about)
            write_tensors({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, place / TENSORS)
            digests = {name: digest(place / name) for name in (MODEL, TENSORS)}
            rest = {"metrics": length, "digests": digests, "data": data}
            (place / REST).write_text(json.dumps(rest), encoding="utf-8")
            for path in (self.metrics, *place.iterdir(), place):
                to_disk(path)
            place.rename(self.checkpoints / f"{step:08}")
            to_disk(self.checkpoints)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        for old in self._numbered()[:-CHECKPOINTS]:
            shutil.rmtree(old, ignore_errors=True)

    def latest(self) -> Saved | None:
        """The newest checkpoint that is whole. What came after it, damaged files and metrics alike, is removed: it
        will be made again."""
        for place in reversed(self._numbered()):
            try:
                rest = json.loads((place / REST).read_text(encoding="utf-8"))
                if any(digest(place / name) != wanted for name, wanted in rest["digests"].items()):
                    raise ValueError("its files are not as they were written")
                saved = Saved(place / MODEL, load_file(place / TENSORS), rest["data"])
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                self.notes.append(f"checkpoint {place.name} is damaged ({error}); the one before it is used.")
                shutil.rmtree(place)
                continue
            if self.metrics.exists():
                os.truncate(self.metrics, rest["metrics"])
            return saved
        self.metrics.unlink(missing_ok=True)
        return None

    def write(self, name: str, data: Mapping[str, Any]) -> None:
        """A JSON file of the folder, whole or not at all."""
        write_whole(self.folder / name, json.dumps(data, indent=1) + "\n")

    def result(self) -> dict[str, Any] | None:
        """What ``result.json`` says, if the run has ended."""
        path = self.folder / "result.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _numbered(self) -> list[Path]:
        return sorted(path for path in self.checkpoints.iterdir() if path.name.isdigit())

    def _tidy(self) -> None:
        for path in self.checkpoints.glob(".writing-*"):
            shutil.rmtree(path)

    def _agree(self, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Settings of a folder never change: what is in it would not belong together."""
        path = self.folder / "config.json"
        if not path.exists():
            self.write("config.json", settings)
            return
        before, now = _flat(defaults) | _flat(_read_json(path)), _flat(settings)
        differing = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
        if differing:
            differences = "; ".join(f"{key} was {before.get(key)!r} and is {now.get(key)!r}" for key in differing)
            raise RunError(
                f"{self.folder} holds a run with other settings: {differences}. Name another folder with --out, "
                "or use the settings it was begun with."
            )


class _Beside(Run):
    """The folder in which another process of the same training writes: what this one writes comes to nothing."""

    def log(self, line: Mapping[str, Any]) -> None:
        """Nothing."""

    def save(
        self, step: int, model: nn.Module, tensors: Mapping[str, Tensor], data: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Nothing."""

    def write(self, name: str, data: Mapping[str, Any]) -> None:
        """Nothing."""

    def latest(self) -> Saved | None:
        """The newest checkpoint, after the other has removed those that are damaged."""
        places = self._numbered() if self.checkpoints.is_dir() else []
        if not places:
            return None
        rest = json.loads((places[-1] / REST).read_text(encoding="utf-8"))
        return Saved(places[-1] / MODEL, load_file(places[-1] / TENSORS), rest["data"])


def model_file(source: Path) -> Path:
    """The file of the model: itself, that of a finished run, or of the last checkpoint of one that is not. ::

    model_file(Path("runs/mine"))  # runs/mine/model.safetensors
    """
    if source.is_file():
        return source
    finished, checkpoints = source / MODEL, sorted(source.glob(f"checkpoints/[0-9]*/{MODEL}"))
    if finished.is_file() or checkpoints:
        return finished if finished.is_file() else checkpoints[-1]
    if ".py:" in str(source):
        raise RunError(
            f"{source} names a function. Give the file that leanrnn.save wrote of its model, and --factory {source}."
        )
    raise RunError(f"there is no model in {source}. Name a file, or a run that has written a checkpoint.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} cannot be read ({error}). Begin a new run in another folder.") from error
    return dict(data)


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= {f"{key}.{k}": v for k, v in _flat(value).items()} if isinstance(value, Mapping) else {key: value}
    return found
