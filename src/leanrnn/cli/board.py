"""The metrics of a run for TensorBoard."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from typing import Any, cast

from leanrnn.errors import ConfigError
from leanrnn.lab.runs import Run
from leanrnn.lab.task import Event

__all__ = ["Board"]


class Board:
    """Writes what happens into the folder ``tensorboard`` of a run, if it is wanted. ::

    board = Board(run, wanted=True)
    board.event(event)
    """

    def __init__(self, run: Run, wanted: bool) -> None:
        self.run = run
        self.kind: Any = _writer() if wanted else None
        self.writer: Any = None

    def event(self, event: Event) -> None:
        """Every number of the event, at its step."""
        if self.kind is None:
            return
        if self.writer is not None:
            self._write({"kind": type(event).__name__.lower(), **asdict(cast(Any, event))})
            return
        # Whenever the run was interrupted, its metrics are what happened, this event included.
        folder = self.run.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self.writer = self.kind(str(folder))
        for line in self.run.metrics.read_text(encoding="utf-8").splitlines():
            self._write(json.loads(line))

    def _write(self, line: dict[str, Any]) -> None:
        kind = line.pop("kind")
        for name, value in line.items():
            parts = value if isinstance(value, dict) else {"": value} if not isinstance(value, str) else {}
            for part, number in parts.items():
                self.writer.add_scalar(f"{kind}/{name}/{part}".rstrip("/"), number, line["step"])
        self.writer.flush()


def _writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("TensorBoard is not installed. Install it with: pip install leanrnn[tensorboard]") from error
    return SummaryWriter
