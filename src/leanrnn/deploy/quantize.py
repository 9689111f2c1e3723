"""Make an exported file four times smaller: weights of eight bits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    kept: tuple[str, ...]
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
    and numbers again when it runs (:attr:`Quantized.kept`). So are all weights with ``weights_only``: the file is as
    small, hardly less exact, not faster, and runs wherever ONNX does, in OpenVINO for instance.

    Arguments:
        out: the file to write; ``NAME.int8.onnx`` if not given.
        reduce_range: use seven of the eight bits. Processors without VNNI overflow otherwise; by default this one is
            asked. A file for unknown machines wants ``True``.
        weights_only: compute in single precision everywhere.
        evaluate: called with the path of both files, for instance for a perplexity.
    """
    from leanrnn.deploy.files import said
    from leanrnn.deploy.int8 import change, has_vnni, kept_nodes, store_in_bytes, to_int8

    source = Path(path)
    about = said(source)
    target = Path(out) if out is not None else source.with_suffix(".int8.onnx")
    if not target.parent.is_dir():
        raise ExportError(f"there is no folder {target.parent}. Create it first.")
    reduce_range = not has_vnni() if reduce_range is None else reduce_range
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        part = Path(folder) / target.name
        if weights_only:
            store_in_bytes(source, part)
        else:
            to_int8(source, part, reduce_range)
        difference = max(change(source, part, about, _lengths(about, sizes)) for sizes in SIZES)
        scores = (evaluate(source), evaluate(part)) if evaluate else (None, None)
        size, kept = source.stat().st_size, kept_nodes(part)
        part.replace(target)
    return Quantized(target, size, target.stat().st_size, difference, kept, *scores)


def _lengths(about: dict[str, Any], sizes: dict[str, int]) -> dict[str, int]:
    names = {size for shape in about["inputs"].values() for size in shape if isinstance(size, str)}
    return {name: sizes.get(name, 16) for name in names}
