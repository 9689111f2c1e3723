"""Eight bits: what onnxruntime multiplies as bytes, what is only stored as such, and by how much outputs change."""

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
    """Quantise weights now and activations while running; a scale for every row, which is closer than one for all."""
    (tool,) = needed("onnxruntime.quantization")
    options = {"weight_type": tool.QuantType.QInt8, "per_channel": True, "reduce_range": reduce_range}
    try:
        with quietly():
            tool.quantize_dynamic(source, target, **options)
            _store_in_bytes(target)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ExportError(f"onnxruntime cannot quantise {source}: {reason}. Keep it as it is.") from error


def _store_in_bytes(path: Path) -> None:
    """Weights of GRU and RNN nodes, which onnxruntime leaves alone: bytes in the file, numbers again as it runs."""
    (onnx,) = needed("onnx")
    model = onnx.load(str(path))
    weights = {each.name: each for each in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type in RECURRENT]:
        for place in (1, 2):
            tensor = weights.get(node.input[place])
            if tensor is not None:
                values = onnx.numpy_helper.to_array(tensor)
                scale = np.maximum(np.abs(values).max(axis=(0, 2)) / 127, np.finfo(np.float32).tiny)
                stored = np.round(values / scale[None, :, None]).astype(np.int8)
                parts = {f"{tensor.name}/bytes": stored, f"{tensor.name}/scale": scale.astype(np.float32)}
                name = tensor.name
                model.graph.initializer.remove(tensor)
                model.graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in parts.items())
                model.graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", list(parts), [name], axis=1))
    onnx.save(model, str(path))


def change(before: Path, after: Path, about: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
    """How far the outputs of two files are apart, the root of the mean square relative to that of the output."""
    inputs = inputs_for(about, sizes)
    worst = 0.0
    for a, b in zip(session(before).run(None, inputs), session(after).run(None, inputs), strict=True):
        worst = max(worst, float(np.sqrt(np.square(a - b).mean() / (np.square(a).mean() or 1.0))))
    return worst


def kept_nodes(path: Path) -> tuple[str, ...]:
    """Recurrent nodes that compute in single precision."""
    (onnx,) = needed("onnx")
    return tuple(node.name for node in onnx.load(str(path)).graph.node if node.op_type in RECURRENT)


def has_vnni() -> bool:
    """Whether this processor multiplies bytes without losing any of the sum."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    info = Path("/proc/cpuinfo")
    return info.exists() and "vnni" in info.read_text(encoding="utf-8")
