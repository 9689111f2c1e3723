"""Other people's libraries: which extra brings them, silence while they work, and their errors in one line."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from leanrnn.errors import ExportError, LeanRNNError

__all__ = ["ONNX", "OPENVINO", "Extra", "in_short", "quietly"]


@dataclass(frozen=True)
class Extra:
    """An extra of leanrnn and the packages that come with it. ::

    onnxruntime = ONNX.package("onnxruntime")
    """

    name: str
    packages: tuple[str, ...]
    error: type[LeanRNNError] = ExportError
    """What is raised if one is missing."""

    @property
    def missing(self) -> str:
        """A sentence on packages that are not installed; empty if all are."""
        absent = ", ".join(name for name in self.packages if importlib.util.find_spec(name) is None)
        return f"{absent} not installed. Install with: pip install leanrnn[{self.name}]" if absent else ""

    def package(self, name: str) -> ModuleType:
        """A package, or an error that says how to get it."""
        try:
            with quietly():
                return importlib.import_module(name)
        except ImportError as error:
            raise self.error(f"{name} is not installed. Install it with: pip install leanrnn[{self.name}]") from error

    def check(self) -> None:
        """An error if a package cannot be imported."""
        for name in self.packages:
            self.package(name)


ONNX = Extra("onnx", ("onnx", "onnxscript", "onnxruntime"))
OPENVINO = Extra("openvino", (*ONNX.packages, "openvino"))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Inside, no warning and no message of a logger: what goes wrong is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def in_short(error: BaseException, limit: int = 300) -> str:
    """An error of a library as a part of a sentence of ours: in one line, and no longer than so many letters."""
    return " ".join(str(error).split())[:limit]
