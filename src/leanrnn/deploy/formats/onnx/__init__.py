"""ONNX: one node a recurrent layer and direction, any batch, any number of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leanrnn.deploy.files import KEY
from leanrnn.deploy.formats.base import Format, Options, Runner, Written
from leanrnn.deploy.libraries import ONNX
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leanrnn.deploy.program import Program

__all__ = ["Onnx"]

OPSETS = (17, 25)
"""Versions of ONNX's operators that files were written and run with."""


class Onnx(Format):
    """For onnxruntime, OpenVINO and whatever else reads ONNX."""

    suffix, title, runtime, extra = ".onnx", "ONNX file", "onnxruntime", ONNX

    def check(self, options: Options) -> None:
        """The version of the operators."""
        if not OPSETS[0] <= options.opset <= OPSETS[1]:
            raise ExportError(f"opset is {options.opset}. Give one from {OPSETS[0]} to {OPSETS[1]}.")

    def trace(self, model: nn.Module, example: Any, held: frozenset[tuple[int, int]]) -> Program:
        """With the operators of leanrnn, which become one node each."""
        from leanrnn.deploy.program import trace

        return trace(model, example, held)

    def write(self, program: Program, metadata: Mapping[str, Any], path: Path, options: Options) -> Written:
        """Translate the graph and save it."""
        import onnx_ir

        from leanrnn.deploy.formats.onnx.graph import to_onnx

        model = to_onnx(program, metadata, options.outputs, options.opset)
        try:
            onnx_ir.save(model, path)
        except ValueError as error:
            raise ExportError(f"the model is too large for one ONNX file ({error}). Shrink it first.") from error
        return Written(tuple(value.name for value in model.graph.outputs), len(list(model.graph)))

    def runner(self, path: Path) -> Runner:
        """A session of onnxruntime."""
        import torch

        from leanrnn.deploy.runtimes import session

        ready, names = session(path), list(self.metadata(path)["inputs"])

        def run(tensors: Sequence[Tensor]) -> list[Tensor]:
            arrays = (tensor.detach().cpu().contiguous().numpy() for tensor in tensors)
            outputs = ready.run(None, dict(zip(names, arrays, strict=True)))
            return [torch.from_numpy(each) for each in outputs]

        return run

    def stored(self, path: Path) -> str:
        """An entry of ONNX's own metadata."""
        model = ONNX.package("onnx").load(str(path))
        return str({each.key: each.value for each in model.metadata_props}[KEY])

    def quantize(self, source: Path, target: Path, *, reduce_range: bool | None, weights_only: bool) -> None:
        """With products of bytes, or with weights that are bytes in the file alone."""
        from leanrnn.deploy.formats.onnx.int8 import has_vnni, store_in_bytes, to_int8

        if weights_only:
            store_in_bytes(source, target)
        else:
            to_int8(source, target, not has_vnni() if reduce_range is None else reduce_range)

    def float_nodes(self, path: Path) -> tuple[str, ...]:
        """Nodes of layers that the quantiser left."""
        from leanrnn.deploy.formats.onnx.int8 import RECURRENT, nodes_of

        model = ONNX.package("onnx").load(str(path))
        return tuple(node.name for node in nodes_of(model.graph) if node.op_type in RECURRENT)
