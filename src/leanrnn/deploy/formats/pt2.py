"""A model as a program of torch itself (.pt2): any batch, but the number of steps of the example."""

from __future__ import annotations

import inspect
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leanrnn.deploy.files import KEY
from leanrnn.deploy.formats.base import Format, Options, Runner, Written
from leanrnn.deploy.libraries import quietly
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from leanrnn.deploy.program import Program

__all__ = ["TorchProgram"]


class TorchProgram(Format):
    """For ``torch.export.load``; needs neither leanrnn nor the model's classes to run."""

    suffix, title, runtime = ".pt2", "program of torch", "torch"
    note = "Numbers above are fixed: torch's programs hold the number of steps; .onnx takes any."

    def trace(self, model: nn.Module, example: Any, held: frozenset[tuple[int, int]]) -> Program:
        """With torch's own recurrent operators, which take the number of steps for a constant; which other lengths may
        vary is known from the operators of leanrnn."""
        from leanrnn.deploy.containers import tensors_of
        from leanrnn.deploy.examples import longer
        from leanrnn.deploy.lengths import is_number
        from leanrnn.deploy.program import trace
        from leanrnn.deploy.reasons import untraced
        from leanrnn.running.quiet import quiet

        program = trace(model, example, held)
        tensors = tensors_of(example)
        single = [
            (i, axis)
            for i, shape in enumerate(program.inputs.values())
            for axis, size in enumerate(shape)
            if isinstance(size, str) and not size.startswith("time") and tensors[i].size(axis) == 1
        ]
        example = longer(example, single)  # a batch of one would be taken for a constant too
        try:
            with quiet(model), quietly():
                exported = _captured(model, example, held)
        except Exception as error:
            raise ExportError(f"{untraced(error)} Torch's own operators may do less there than ONNX's.") from error
        nodes = {node.name: node for node in exported.graph.nodes}
        now = [nodes[str(name)].meta["val"] for name in exported.graph_signature.user_inputs if str(name) in nodes]
        sizes = [value.shape for value in now if hasattr(value, "shape")]
        inputs = {
            name: tuple(map(_size, shape, size))
            for (name, shape), size in zip(program.inputs.items(), sizes, strict=True)
        }
        pairs = [pair for name in inputs for pair in zip(program.inputs[name], inputs[name], strict=True)]
        fixed = {str(word): int(size) for word, size in pairs if word != size and is_number(size)}
        return replace(program, exported=exported, example=example, inputs=inputs, fixed=(program.fixed or {}) | fixed)

    def write(self, program: Program, metadata: Mapping[str, Any], path: Path, options: Options) -> Written:
        """Save it, with the metadata beside it in the archive."""
        import torch

        with quietly():
            torch.export.save(program.exported, path, extra_files={f"{KEY}.json": json.dumps(metadata)})
        return Written(tuple(options.outputs or program.outputs), len(program.exported.graph.nodes))

    def runner(self, path: Path) -> Runner:
        """What was saved; inputs that are no tensors are those of the example."""
        import torch
        from torch.export.graph_signature import InputKind, TensorArgument
        from torch.utils import _pytree as pytree

        from leanrnn.deploy.containers import tensors_of

        with quietly():
            exported = torch.export.load(path)
            module = exported.module()
        given = [spec.arg for spec in exported.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]

        def run(tensors: Sequence[Tensor]) -> list[Tensor]:
            rest = iter(tensors)
            inputs = [next(rest) if isinstance(each, TensorArgument) else each.value for each in given]
            args, kwargs = pytree.tree_unflatten(inputs, exported.call_spec.in_spec)
            with torch.no_grad():
                return tensors_of(module(*args, **kwargs))

        return run

    def stored(self, path: Path) -> str:
        """Of the archive, without loading weights."""
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(f"/extra/{KEY}.json")]
            if not names:
                raise KeyError(KEY)
            return archive.read(names[0]).decode()


def _captured(model: nn.Module, example: Any, held: frozenset[tuple[int, int]]) -> ExportedProgram:
    """Called as the model is if its containers are torch's; otherwise with tensors, one after the other."""
    import torch
    from torch.export import Dim
    from torch.utils import _pytree as pytree

    from leanrnn.deploy.containers import Flat, is_plain, tensors_of
    from leanrnn.deploy.program import capture
    from leanrnn.running.call import arguments, call
    from leanrnn.running.copies import copy_example

    with torch.no_grad():
        plain = is_plain(example) and is_plain(call(model, copy_example(example)))
    if not plain:
        return capture(Flat(model, example), tensors_of(example), held)
    args, kwargs = arguments(example)
    places = iter(enumerate(tensors_of(example)))

    def axes(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        i, tensor = next(places)
        return {axis: Dim.AUTO for axis in range(tensor.dim()) if (i, axis) not in held}

    shapes = pytree.tree_map(axes, inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    return torch.export.export(model, args, kwargs, dynamic_shapes=dict(shapes), strict=False)


def _size(before: str | int, now: Any) -> str | int:
    """The name of a length, unless torch's operators took it for a constant."""
    return int(str(now)) if str(now).isdigit() else before
