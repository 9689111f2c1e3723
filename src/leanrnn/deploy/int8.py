"""Eight bits with onnxruntime: what it can, where it stays exact enough, and by how much outputs change."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leanrnn.deploy.files import inputs_for, session
from leanrnn.deploy.quietly import needed, quietly
from leanrnn.errors import ExportError

__all__ = ["change", "has_vnni", "kept_nodes", "to_int8"]

RECURRENT = ("LSTM", "GRU", "RNN")


def to_int8(source: Path, target: Path, reduce_range: bool) -> None:
    """Quantise weights now and activations while running; a scale for every row, which costs nothing and is closer."""
    (tool,) = needed("onnxruntime.quantization")
    options = {"weight_type": tool.QuantType.QInt8, "per_channel": True, "reduce_range": reduce_range}
    try:
        with quietly():
            tool.quantize_dynamic(source, target, **options)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ExportError(f"onnxruntime cannot quantise {source}: {reason}. Keep it as it is.") from error


def change(before: Path, after: Path, about: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
    """Largest difference of the outputs of two files, relative to the largest number of each."""
    inputs = inputs_for(about, sizes)
    worst = 0.0
    for a, b in zip(session(before).run(None, inputs), session(after).run(None, inputs), strict=True):
        worst = max(worst, float(np.abs(a - b).max()) / (float(np.abs(a).max()) or 1.0))
    return worst


def kept_nodes(path: Path) -> tuple[str, ...]:
    """Recurrent nodes that are still computed in single precision."""
    (onnx,) = needed("onnx")
    return tuple(node.name for node in onnx.load(str(path)).graph.node if node.op_type in RECURRENT)


def has_vnni() -> bool:
    """Whether this processor multiplies bytes without losing any of the sum."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    info = Path("/proc/cpuinfo")
    return info.exists() and "vnni" in info.read_text(encoding="utf-8")
