"""An exported file as others see it: where it says what it is, and inputs for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import ExportError

__all__ = ["KEY", "Arrays", "free_lengths", "inputs_for"]

KEY = "leanrnn"
"""Under this name a file has its metadata, as JSON."""
Arrays = dict[str, NDArray[Any]]


def free_lengths(metadata: Mapping[str, Any]) -> set[str]:
    """Names of the lengths that may be anything."""
    return {size for shape in metadata["inputs"].values() for size in shape if isinstance(size, str)}


def inputs_for(metadata: Mapping[str, Any], sizes: Mapping[str, int]) -> Arrays:
    """Random inputs for a file of this metadata; ``sizes`` are the lengths that may be anything. ::

    inputs_for(metadata_of(path), {"batch": 10, "time": 30})
    """
    random = np.random.default_rng(0)
    found: Arrays = {}
    for name, shape in metadata["inputs"].items():
        try:
            lengths = [size if isinstance(size, int) else sizes[size] for size in shape]
        except KeyError as error:
            raise ExportError(f"{name} has a length {error.args[0]!r}. Say how long it is to be.") from error
        kind, low, high = metadata["values"][name]
        if name in metadata["lengths"]:
            found[name] = np.full(lengths, sizes.get("time", high), kind)
        elif np.dtype(kind).kind == "f":
            found[name] = random.standard_normal(lengths).astype(kind)
        else:
            found[name] = random.integers(low, high + 1, lengths).astype(kind)
    return found
