"""Make an exported file four times smaller: weights of eight bits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leanrnn.deploy.files import Arrays, free_lengths, inputs_for
from leanrnn.deploy.formats import format_to_read
from leanrnn.deploy.libraries import in_short
from leanrnn.deploy.runtimes import RUNTIMES
from leanrnn.errors import ExportError

__all__ = ["Quantized", "quantize"]

SIZES = ({"batch": 1, "time": 1}, {"batch": 3, "time": 20}, {"batch": 8, "time": 50})
"""At which the outputs are compared; other lengths are 16."""


@dataclass(frozen=True)
class Quantized:
    """What was written, and what it changed."""

    path: Path
    bytes_before: int
    bytes_after: int
    difference: float
    """Change of the output that changes most: the root of its mean square, relative to the output's."""
    float_nodes: tuple[str, ...]
    """Recurrent nodes that compute in single precision, from weights that are bytes in the file only."""
    before: float | None = None
    """What ``evaluate`` said of the file it was made from."""
    after: float | None = None
    """What it says now."""


def quantize(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    reduce_range: bool | None = None,
    weights_only: bool = False,
    evaluate: Callable[[Path], float] | None = None,
) -> Quantized:
    """Write a file with weights of eight bits, which onnxruntime multiplies as such. ::

        leanrnn.quantize("small.onnx")                      # small.int8.onnx
        leanrnn.quantize("small.onnx", evaluate=perplexity)  # with what it costs

    LSTM and linear layers compute with bytes. onnxruntime has no such GRU and RNN: their weights are bytes in the file,
    and numbers again when it runs (:attr:`Quantized.float_nodes`). So are all weights with ``weights_only``: the file
    is as small, hardly less exact, not faster, and runs wherever ONNX does, in OpenVINO for instance.

    Arguments:
        out: the file to write; ``NAME.int8.onnx`` if not given.
        reduce_range: use seven of the eight bits. Processors without VNNI overflow otherwise; by default this one is
            asked. A file for unknown machines wants ``True``.
        weights_only: compute in single precision everywhere.
        evaluate: called with the path of both files, for instance for a perplexity.
    """
    source = Path(path)
    form = format_to_read(source)
    metadata = form.metadata(source)
    target = Path(out) if out is not None else source.with_suffix(f".int8{form.suffix}")
    if not target.parent.is_dir():
        raise ExportError(f"there is no folder {target.parent}. Create it first.")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        part = Path(folder) / target.name
        form.quantize(source, part, reduce_range=reduce_range, weights_only=weights_only)
        inputs = [inputs_for(metadata, _all_lengths(metadata, sizes)) for sizes in SIZES]
        difference = max(_change(form.runtime, source, part, each) for each in inputs)
        scores = (evaluate(source), evaluate(part)) if evaluate else (None, None)
        size, nodes = source.stat().st_size, form.float_nodes(part)
        part.replace(target)
    return Quantized(target, size, target.stat().st_size, difference, nodes, *scores)


def _all_lengths(metadata: dict[str, Any], sizes: dict[str, int]) -> dict[str, int]:
    return {name: sizes.get(name, 16) for name in free_lengths(metadata)}


def _change(runtime: str, before: Path, after: Path, inputs: Arrays) -> float:
    """How far the outputs of two files are apart, the root of the mean square relative to that of the output."""
    expected = RUNTIMES[runtime].open(before, inputs, None)()
    try:
        found = RUNTIMES[runtime].open(after, inputs, None)()
    except Exception as error:  # of the runtime, for a file that its quantiser should not have written
        raise ExportError(
            f"{runtime} cannot run {before} in eight bits: {in_short(error, 200)}. Take weights_only=True, or keep it "
            "as it is."
        ) from error
    worst = 0.0
    for a, b in zip(expected, found, strict=True):
        worst = max(worst, float(np.sqrt(np.square(a - b).mean() / (np.square(a).mean() or 1.0))))
    return worst
