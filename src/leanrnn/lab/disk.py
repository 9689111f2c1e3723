"""Files that are there as a whole or not at all, a lock, and failures of the disk in plain words."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leanrnn.errors import RunError

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
    """Hold a lock that ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows: the folder is not guarded there
        yield
        return
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise RunError(
                f"another process ({file.read().strip() or 'unknown'}) is training in {path.parent}. "
                "Wait for it, or name another folder with --out."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


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
    """Make sure that a file, or the names in a folder, survive a loss of power."""
    if not path.exists():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
