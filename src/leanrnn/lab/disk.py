"""Files that are there as a whole or not at all, a lock, and failures of the disk in plain words."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from leanrnn.errors import RunError

WINDOWS = os.name == "nt"

__all__ = ["cache", "digest", "locked", "plain_errors", "to_disk", "write_whole"]


def write_whole(path: Path, text: str) -> None:
    """A file of text, whole or not at all. ::

    write_whole(Path("report.html"), page)
    """
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        to_disk(part)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends: one of the system's own, on Windows too, and on network
    folders whose server knows locks. On others it is a file with the process and its machine in it; if that machine is
    gone, somebody has to remove it."""
    lock, owner = FileLock(path, timeout=0), path.with_name("process.json")
    try:
        with warnings.catch_warnings(action="ignore"):  # that it falls back to a file
            lock.acquire()
    except Timeout as error:
        raise RunError(
            f"another process ({_owner(owner)}) is training in {path.parent}. Wait for it, or name another folder with "
            "--out."
        ) from error
    try:
        write_whole(owner, json.dumps({"process": os.getpid(), "machine": socket.gethostname()}) + "\n")
        yield
    finally:
        lock.release()


def _owner(path: Path) -> str:
    """Who holds a lock, as far as it is known."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        here = said["machine"] == socket.gethostname()
        return f"{said['process']}" if here else f"{said['process']} on {said['machine']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


@contextmanager
def plain_errors(folder: Path) -> Iterator[None]:
    """Failures of the disk in plain words."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise RunError(
                f"{folder} cannot grow: {os.strerror(error.errno)}. The last checkpoint is whole; make room and give "
                "the same command again."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise RunError(f"{folder} cannot be written to: {error.strerror}. Name another with --out.") from error
        raise


def cache() -> Path:
    """Where leanrnn keeps what would take long to make or fetch again: LEANRNN_CACHE, or a folder of the user's."""
    if given := os.environ.get("LEANRNN_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leanrnn"


def digest(path: Path) -> str:
    """What tells a file from any other."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_disk(path: Path) -> None:
    """Make sure that a file, or the names in a folder, survive a loss of power. Windows writes names by itself, and
    some network folders have no way to be asked for it: of those a checkpoint may be lost, never half of one kept."""
    folder = path.is_dir()
    if not path.exists() or (folder and WINDOWS):
        return
    handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not folder or error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS):
            raise
    finally:
        os.close(handle)
