"""Eight bits: what onnxruntime multiplies as bytes, and what is only stored as such."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from leanrnn.deploy.formats.onnx.steps import to_steps
from leanrnn.deploy.libraries import ONNX, in_short, quietly
from leanrnn.errors import ExportError

__all__ = ["RECURRENT", "has_vnni", "nodes_of", "store_in_bytes", "to_int8"]

RECURRENT = ("LSTM", "GRU", "RNN")
LINEAR = ("MatMul", "Gemm", "Gather")
PLACES = dict.fromkeys(RECURRENT, (1, 2)) | {"MatMul": (1,), "Gemm": (1,), "Gather": (0,)}
"""Which inputs of a node are its weights."""
AXES = dict.fromkeys(RECURRENT, 1) | {"MatMul": -1, "Gemm": 0, "Gather": 0}
"""Which axis of them gets a scale for every index: the units that are computed, the words of an embedding."""


def to_int8(source: Path, target: Path, reduce_range: bool) -> None:
    """Quantise weights now and activations while running; a scale for every row, which is closer than one for all."""
    tool = ONNX.package("onnxruntime.quantization")
    options = {"weight_type": tool.QuantType.QInt8, "per_channel": True, "reduce_range": reduce_range}
    inside = {"EnableSubgraph": True}  # the steps of a scan too
    try:
        with quietly():
            stacked = _prepare(source, target)
            tool.quantize_dynamic(target, target, nodes_to_exclude=stacked, extra_options=inside, **options)
            store_in_bytes(target, target, (*RECURRENT, "MatMul"))  # of which only those are left
    except Exception as error:
        raise ExportError(f"onnxruntime cannot quantise {source}: {in_short(error)}. Keep it as it is.") from error


def _prepare(source: Path, target: Path) -> list[str]:
    """The file as onnxruntime's quantiser can take it; the products that it cannot, with a stack of matrices, as of
    layers in blocks: onnxruntime takes one scale for every column of a single one."""
    onnx = ONNX.package("onnx")
    model = onnx.load(str(source))
    to_steps(model)
    _own_weights(model)
    _turn_gemms(onnx, model)
    for graph in _graphs(model.graph):
        del graph.value_info[:]  # of shapes that are others now
    onnx.save(model, str(target))
    stacks = {each.name for each in model.graph.initializer if len(each.dims) > 2}
    return [node.name for node in nodes_of(model.graph) if node.op_type == "MatMul" and node.input[1] in stacks]


def _own_weights(model: Any) -> None:
    """Every recurrent node gets weights of its own: onnxruntime's quantiser takes those that two nodes share, as of a
    layer that runs twice, for quantised after the first, and writes a file that does not run."""
    weights, used = {each.name: each for each in model.graph.initializer}, set[str]()
    for node in [node for node in model.graph.node if node.op_type in RECURRENT]:
        for place in PLACES[node.op_type]:
            name = node.input[place]
            if name in used and name in weights:
                node.input[place] = f"{node.name}/own/{place}"
                model.graph.initializer.add().CopyFrom(weights[name])
                model.graph.initializer[-1].name = node.input[place]
            used.add(name)


def _turn_gemms(onnx: Any, model: Any) -> None:
    """A Gemm becomes a MatMul and an Add. The quantiser would do so too, but turns round the weight itself that others
    may read: an embedding that is tied to the output, or the same layer in the next step."""
    weights, turned = {each.name: each for each in model.graph.initializer}, dict[str, str]()
    for graph in _graphs(model.graph):
        nodes = [part for node in graph.node for part in _turned(onnx, node, weights, turned)]
        del graph.node[:]
        graph.node.extend(nodes)
    for name, other in turned.items():
        values = np.ascontiguousarray(onnx.numpy_helper.to_array(weights[name]).T)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, other))
    read = {name for node in nodes_of(model.graph) for name in node.input} | {each.name for each in model.graph.output}
    for name in turned.keys() - read:
        model.graph.initializer.remove(weights[name])


def _turned(onnx: Any, node: Any, weights: dict[str, Any], turned: dict[str, str]) -> list[Any]:
    """What takes the place of a node; ``turned`` learns which weights are needed the other way round."""
    options = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    scaled = options.get("alpha", 1) != 1 or options.get("beta", 1) != 1 or options.get("transA", 0)
    if node.op_type != "Gemm" or node.input[1] not in weights or scaled:
        return [node]
    x, weight, *bias = node.input
    if options.get("transB", 0):
        weight = turned.setdefault(weight, f"{weight}/turned")
    product = f"{node.output[0]}/product" if bias else node.output[0]
    parts = [onnx.helper.make_node("MatMul", [x, weight], [product], f"{node.name}/MatMul")]
    return parts + [onnx.helper.make_node("Add", [product, each], node.output, f"{node.name}/Add") for each in bias]


def store_in_bytes(source: Path, target: Path, kinds: Iterable[str] = (*RECURRENT, *LINEAR)) -> None:
    """Weights of these nodes: bytes with a scale for every row in the file, numbers again as it runs. Any runtime reads
    that, since it needs no operator but DequantizeLinear."""
    onnx = ONNX.package("onnx")
    model = onnx.load(str(source))
    weights = {each.name: each for each in model.graph.initializer}
    done = set()
    for node in [node for node in nodes_of(model.graph) if node.op_type in kinds]:
        for place in PLACES[node.op_type]:
            tensor = weights.get(node.input[place])
            if tensor is not None and tensor.name not in done and len(tensor.dims) > 1:
                _replace(onnx, model.graph, tensor, AXES[node.op_type])
                done.add(tensor.name)
    onnx.save(model, str(target))


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those inside its nodes, as a scan has one."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def nodes_of(graph: Any) -> Iterator[Any]:
    """Those of a graph and of the graphs inside its nodes."""
    return (node for each in _graphs(graph) for node in each.node)


def _replace(onnx: Any, graph: Any, tensor: Any, axis: int) -> None:
    """A tensor of numbers by one of bytes, and a scale for every index of ``axis``."""
    values, name = onnx.numpy_helper.to_array(tensor), tensor.name
    others = tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    scale = np.maximum(np.abs(values).max(axis=others) / 127, np.finfo(np.float32).tiny)
    stored = np.round(values / np.expand_dims(scale, others)).astype(np.int8)
    parts = {f"{name}/bytes": stored, f"{name}/scale": scale.astype(np.float32)}
    graph.initializer.remove(tensor)
    graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in parts.items())
    graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", list(parts), [name], axis=axis % values.ndim))


def has_vnni() -> bool:
    """Whether this processor multiplies bytes without losing any of the sum."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    info = Path("/proc/cpuinfo")
    return info.exists() and "vnni" in info.read_text(encoding="utf-8")
