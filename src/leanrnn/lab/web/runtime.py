"""onnxruntime for browsers: one version, known by its hash, fetched with npm when it is first needed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from leanrnn.errors import ExportError
from leanrnn.lab.disk import cache

__all__ = ["Runtime", "fetch"]

MINUTES = 10
"""Longer than this nobody waits for npm."""


@dataclass(frozen=True)
class Runtime:
    """What a page needs to run an ONNX file, compressed with gzip."""

    name: str
    """Package and version."""
    script: bytes
    """A module of JavaScript."""
    wasm: bytes
    """The machine code that the script runs."""


def fetch(place: Path | None = None) -> Runtime:
    """The runtime, from the cache or with npm; an error says why it cannot be had. ::

    fetch().name  # onnxruntime-web and its version
    """
    pinned = _pinned()
    home = (place or cache()) / f"{pinned['package']}-{pinned['version']}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the last step is a rename and what is in the cache is always whole.
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            archive = _pack(f"{pinned['package']}@{pinned['version']}", Path(folder))
            _check(archive, pinned["integrity"])
            whole = Path(folder) / "whole"
            whole.mkdir()
            for part in ("script", "wasm"):
                (whole / f"{part}.gz").write_bytes(gzip.compress(_member(archive, f"package/{pinned[part]}"), mtime=0))
            try:
                whole.rename(home)
            except OSError:
                if not home.is_dir():  # otherwise somebody else was faster, with the same bytes
                    raise
    name = f"{pinned['package']} {pinned['version']}"
    return Runtime(name, (home / "script.gz").read_bytes(), (home / "wasm.gz").read_bytes())


def _pinned() -> dict[str, str]:
    """Package, version and hash, and the names of the two files in it."""
    return dict(json.loads(resources.files(__package__).joinpath("runtime.json").read_text(encoding="utf-8")))


def _pack(package: str, folder: Path) -> Path:
    """The package as an archive; nothing of it is run."""
    npm = shutil.which("npm")
    if npm is None:
        raise ExportError(f"{package} comes with npm, which is not installed. Install Node.js, which brings it.")
    command = [npm, "pack", package, "--pack-destination", str(folder), "--ignore-scripts", "--fetch-retries=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * MINUTES, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"npm did not get {package} within {MINUTES} minutes. Try again.") from error
    found = list(folder.glob("*.tgz"))
    if done.returncode or not found:
        said = [line.removeprefix("npm error ") for line in done.stderr.splitlines() if line.startswith("npm error ")]
        reason = ", ".join(said[:3])[:200] or f"it ended with {done.returncode}"
        raise ExportError(f"npm could not get {package} ({reason}). Try again with a network.")
    return found[0]


def _check(archive: Path, integrity: str) -> None:
    kind, _, wanted = integrity.partition("-")
    found = base64.b64encode(hashlib.new(kind, archive.read_bytes()).digest()).decode()
    if found != wanted:
        raise ExportError(
            f"npm brought another {archive.name} than leanrnn was tested with. Look where npm gets it from."
        )


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as opened:
        file = opened.extractfile(name)
        assert file is not None  # the archive is the one we know, bit for bit
        return file.read()
