"""An exported file as others see it: what it says of itself, inputs for it, and running it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.deploy.quietly import needed
from leanrnn.errors import ExportError

__all__ = ["KEY", "Arrays", "inputs_for", "said", "session"]

KEY = "leanrnn"
"""Under this name a file says what it is, as JSON."""
Arrays = dict[str, NDArray[Any]]


def said(path: Path) -> dict[str, Any]:
    """What :func:`leanrnn.export` wrote into the file about it."""
    (onnx,) = needed("onnx")
    if not path.is_file():
        raise ExportError(f"there is no file {path}. Write one with leanrnn.export(model, example, path).")
    try:
        model = onnx.load(str(path))
        return dict(json.loads({each.key: each.value for each in model.metadata_props}[KEY]))
    except (KeyError, ValueError) as error:
        raise ExportError(f"{path} was not written by leanrnn. Write one with leanrnn.export.") from error
    except Exception as error:  # of protobuf, which onnx may have from anywhere
        raise ExportError(f"{path} is damaged or no ONNX file ({error}). Write it again.") from error


def inputs_for(about: Mapping[str, Any], sizes: Mapping[str, int], seed: int = 0) -> Arrays:
    """Inputs of chance for a file that says ``about`` itself; ``sizes`` are the lengths that may be anything. ::

    inputs_for(said(path), {"batch": 10, "time": 30})
    """
    random = np.random.default_rng(seed)
    found: Arrays = {}
    for name, shape in about["inputs"].items():
        try:
            lengths = [size if isinstance(size, int) else sizes[size] for size in shape]
        except KeyError as error:
            raise ExportError(f"{name} has a length {error.args[0]!r}. Say how long it is to be.") from error
        kind, low, high = about["values"][name]
        if name in about["lengths"]:
            found[name] = np.full(lengths, sizes.get("time", high), kind)
        elif np.dtype(kind).kind == "f":
            found[name] = random.standard_normal(lengths).astype(kind)
        else:
            found[name] = random.integers(low, high + 1, lengths).astype(kind)
    return found


def session(path: Path, threads: int | None = None) -> Any:
    """The file, ready to run in onnxruntime: ``session(path).run(None, inputs)``."""
    (onnxruntime,) = needed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised, and told once
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
