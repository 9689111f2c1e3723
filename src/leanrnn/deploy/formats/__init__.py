"""The kinds of files leanrnn writes: one entry each, and nobody else looks at how a name ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leanrnn.deploy.formats.base import Format, Options, Runner, Written
from leanrnn.deploy.formats.c import C
from leanrnn.deploy.formats.onnx import Onnx
from leanrnn.deploy.formats.pt2 import TorchProgram
from leanrnn.errors import ExportError

__all__ = [
    "FORMATS",
    "Format",
    "Options",
    "Runner",
    "Written",
    "format_of",
    "format_to_read",
    "format_to_write",
    "metadata_of",
    "runner_of",
]

FORMATS: dict[str, Format] = {each.suffix: each for each in (Onnx(), TorchProgram(), C())}
"""By what a file's name ends in."""


def format_of(path: Path) -> Format | None:
    """The format of an exported file by its name; None if it is no exported file."""
    return FORMATS.get(path.suffix)


def format_to_write(path: Path) -> Format:
    """The format to write, or an error that says which there are."""
    form = format_of(path)
    if form is None:
        raise ExportError(f"{path.name} ends in neither {' nor '.join(FORMATS)}. Give it one of these endings.")
    return form


def format_to_read(path: Path) -> Format:
    """The format to read; a file of another name is taken for the first, which says what is wrong with it."""
    return format_of(path) or next(iter(FORMATS.values()))


def metadata_of(path: Path) -> dict[str, Any]:
    """What :func:`leanrnn.export` wrote into a file about it: inputs, widths, weights, and what its writer added. ::

    metadata_of(Path("small.onnx"))["inputs"]  # {"words": ["time", "batch"]}
    """
    return format_to_read(path).metadata(path)


def runner_of(path: Path) -> Runner:
    """An exported file, ready to be called with tensors in the order of its inputs. ::

    (scores,) = runner_of(Path("small.onnx"))([words])
    """
    return format_to_read(path).runner(path)
