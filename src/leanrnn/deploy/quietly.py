"""Silence where libraries talk about themselves, and imports of what may not be installed."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator
from types import ModuleType

from leanrnn.errors import ExportError

__all__ = ["needed", "quietly"]

EXTRAS = {"onnx": "onnx", "onnxscript": "onnx", "onnxruntime": "onnx", "openvino": "openvino", "nncf": "openvino"}


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


def needed(*names: str) -> list[ModuleType]:
    """These packages, or an error that says how to get them. ::

    (onnxruntime,) = needed("onnxruntime")
    """
    found = []
    for name in names:
        try:
            with quietly():
                found.append(importlib.import_module(name))
        except ImportError as error:
            raise ExportError(
                f"{name} is not installed. Install it with: pip install leanrnn[{EXTRAS[name.partition('.')[0]]}]"
            ) from error
    return found
