"""Ctrl-C and a polite end from elsewhere: a training stops where it can be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["signals"]


@contextmanager
def signals(patient: bool) -> Iterator[threading.Event]:
    """Ctrl-C, or a polite end from elsewhere, asks the loop to stop after the step it is in; twice is at once, unless
    it has to be ``patient``: torchrun passes on a Ctrl-C that its processes have had, and ends them if they take too
    long."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set() and not patient:
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
