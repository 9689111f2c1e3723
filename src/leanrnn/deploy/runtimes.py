"""The same file in several runtimes, timed in turns. No torch is loaded here, so that a fresh process shows what a
runtime alone needs: ``python -m leanrnn.deploy.runtimes onnxruntime small.onnx 1 batch=10 time=30`` prints its peak."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from leanrnn.deploy.files import Arrays, inputs_for, said, session
from leanrnn.deploy.quietly import needed
from leanrnn.environment import peak_bytes
from leanrnn.errors import ExportError

__all__ = ["RUNTIMES", "caller", "in_turns", "installed", "peak_of_fresh_process", "quartiles", "timed"]

Key = TypeVar("Key", bound=Hashable)
RUNTIMES = {"onnxruntime": ("onnx", "onnxruntime"), "openvino": ("openvino",)}
"""And the packages they need."""
WARM_UP, TURN = 2, 10


def installed(runtime: str) -> bool:
    """Whether its packages are there."""
    return all(importlib.util.find_spec(name) for name in RUNTIMES[runtime])


def caller(runtime: str, path: Path, inputs: Arrays, threads: int) -> Callable[[], Any]:
    """A call of the file in a runtime; what it returns are the outputs in order."""
    if runtime == "onnxruntime":
        ready = session(path, threads)
        return lambda: ready.run(None, inputs)
    (openvino,) = needed("openvino")
    try:
        core = openvino.Core()
        # Else it computes in bfloat16 where a processor can, and is compared with numbers of single precision.
        exact = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(str(path), "CPU", exact)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ExportError(f"OpenVINO cannot read {path}: {reason}. Take onnxruntime.") from error
    return lambda: list(compiled(inputs).values())


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


def timed(
    model: str, runtime: str, threads: int, seconds: list[float], file_bytes: int, peak_bytes: int
) -> dict[str, Any]:
    """What was measured of a file, as plain data: the row of a table or of a report."""
    low, middle, high = quartiles(seconds)
    return {
        "model": model, "runtime": runtime, "threads": threads, "milliseconds": middle * 1e3,
        "quartiles": (low * 1e3, high * 1e3), "calls": len(seconds), "file_bytes": file_bytes, "peak_bytes": peak_bytes,
    }  # fmt: skip


def peak_of_fresh_process(runtime: str, path: Path, threads: int, sizes: Mapping[str, int]) -> int:
    """Of a process that does nothing but load the file and run it a few times."""
    words = [f"{name}={size}" for name, size in sizes.items()]
    command = [sys.executable, "-m", "leanrnn.deploy.runtimes", runtime, str(path), str(threads), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"{runtime} failed in a fresh process: {(done.stderr.splitlines() or ['no word'])[-1]}")
    return int(done.stdout)


def _main(runtime: str, path: str, threads: str, *words: str) -> None:
    sizes = {name: int(size) for name, size in (word.split("=") for word in words)}
    call = caller(runtime, Path(path), inputs_for(said(Path(path)), sizes), int(threads))
    for _ in range(WARM_UP):
        call()
    print(peak_bytes())


if __name__ == "__main__":
    _main(*sys.argv[1:])
