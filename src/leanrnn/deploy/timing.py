"""Time and memory: calls in turns, and a process that does nothing else."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from leanrnn.environment import peak_bytes
from leanrnn.errors import ExportError

__all__ = [
    "far_apart",
    "in_turns",
    "is_noisy",
    "peak_of_fresh_process",
    "print_peak",
    "quartiles",
    "timed",
    "times_faster",
]

Key = TypeVar("Key", bound=Hashable)
WARM_UP, TURN = 2, 10
NOISY = 1.5
"""Quartiles that are further apart than this tell of other work, and not of the model."""


def peak_of_fresh_process(module: str, *words: str) -> int:
    """What ``python -m module words`` prints with :func:`print_peak`."""
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.splitlines() or ["no word"])[-1]
        raise ExportError(f"{' '.join(words[:2])} failed in a fresh process: {reason}")
    return int(done.stdout.split()[-1])  # what the code of a user prints stands before it


def print_peak(call: Callable[[], object]) -> None:
    """Run it a few times and print the largest memory this process ever had."""
    for _ in range(WARM_UP):
        call()
    print(peak_bytes())


def in_turns(
    calls: Mapping[Key, Callable[[], object]],
    seconds: float = 0.0,
    *,
    rounds: int = 1,
    turn: int = TURN,
    warm_up: int = WARM_UP,
) -> dict[Key, list[float]]:
    """Seconds of every call, in turns of several, so that a busy moment meets all of them, for so long and so many
    rounds at the least. The first of a turn do not count: they find the caches, and threads that still spin, as another
    model left them."""
    spent: dict[Key, list[float]] = {key: [] for key in calls}
    end = time.perf_counter() + seconds
    while rounds > 0 or time.perf_counter() < end:
        for key, call in calls.items():
            for i in range(warm_up + turn):
                began = time.perf_counter()
                call()
                if i >= warm_up:
                    spent[key].append(time.perf_counter() - began)
        rounds -= 1
    return spent


def quartiles(seconds: list[float]) -> tuple[float, float, float]:
    """First, second (the median) and third."""
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return low, middle, high


def is_noisy(seconds: list[float]) -> bool:
    """Whether the slower quarter of the calls took half as long again as the faster quarter, or longer: something else
    used the machine. ::

        is_noisy([1.0, 1.0, 1.1, 1.1])  # False
    """
    low, _, high = quartiles(seconds)
    return far_apart(low, high)


def far_apart(low: float, high: float) -> bool:
    """The same of the first and third quartile. ::

    far_apart(*leanrnn.measure(model, example).quartiles)
    """
    return high > NOISY * low


def times_faster(before: list[float], after: list[float]) -> float | None:
    """How many times faster calls became, by their medians; None if either are too noisy to tell. ::

    times_faster([2.0, 2.1, 2.2], [1.0, 1.05, 1.1])  # 2.0
    """
    return None if is_noisy(before) or is_noisy(after) else quartiles(before)[1] / quartiles(after)[1]


def timed(
    model: str, runtime: str, threads: int, seconds: list[float], file_bytes: int, peak_bytes: int | None
) -> dict[str, Any]:
    """What was measured of a file, as plain data: the row of a table or of a report. No ``peak_bytes`` if the process
    that was to tell them failed."""
    low, middle, high = quartiles(seconds)
    return {
        "model": model, "runtime": runtime, "threads": threads, "milliseconds": middle * 1e3,
        "quartiles": (low * 1e3, high * 1e3), "noisy": is_noisy(seconds), "calls": len(seconds),
        "file_bytes": file_bytes, "peak_bytes": peak_bytes,
    }  # fmt: skip
