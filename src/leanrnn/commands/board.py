"""The metrics of a run for TensorBoard."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from leanrnn.errors import ConfigError
from leanrnn.recipes.loop import Epoch, Interval
from leanrnn.runs import Run

__all__ = ["Board"]


class Board:
    """Writes what happens into the folder ``tensorboard`` of a run, if it is wanted. ::

    board = Board(run, wanted=True)
    board.event(event)
    """

    def __init__(self, run: Run, wanted: bool) -> None:
        self.folder = run.folder / "tensorboard"
        self.kind: Any = None
        self.writer: Any = None
        if not wanted:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                "TensorBoard is not installed. Install it with: pip install leanrnn[tensorboard]"
            ) from error
        self.kind = SummaryWriter

    def event(self, event: Interval | Epoch) -> None:
        """Every number of the event, at its step."""
        if self.kind is None:
            return
        # A run that goes on repeats what came after its last checkpoint: TensorBoard forgets it from this step on.
        self.writer = self.writer or self.kind(str(self.folder), purge_step=event.step)
        name = "epoch" if isinstance(event, Epoch) else "interval"
        for field, value in asdict(event).items():
            parts = value if isinstance(value, dict) else {"": value}
            for part, number in parts.items():
                self.writer.add_scalar(f"{name}/{field}/{part}".rstrip("/"), number, event.step)
        self.writer.flush()
