"""Programs in processes of their own, which are watched and killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 600
"""Seconds to wait for anything: a busy machine takes its time, and a test that fails may."""


@contextmanager
def started(arguments: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Python, whose output is in ``log`` of the folder; it and its children end with the block."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def finished(process: subprocess.Popen[bytes], folder: Path) -> str:
    """What it has printed, once it has come to a good end."""
    code = process.wait(PATIENCE)
    told = (folder / "log").read_text(errors="replace")
    assert code == 0, told[-3000:]
    return told


def when(folder: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it has printed this."""
    for _ in range(PATIENCE * 20):
        told = (folder / "log").read_text(errors="replace")
        if text in told:
            return
        assert process.poll() is None, told[-3000:]
        time.sleep(0.05)
    raise AssertionError(f"{text!r} never came: {told[-3000:]}")


def children(process: int) -> list[int]:
    """Its children, in the order in which they were started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return sorted(int(each) for path in tasks for each in path.read_text().split())


def kill(process: int) -> None:
    """At once, without a word."""
    os.kill(process, signal.SIGKILL)


def gone(process: int) -> bool:
    """Whether there is no such process any more, or only what is left of it; waits a while for it."""
    for _ in range(100):
        status = Path(f"/proc/{process}/stat")
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False
