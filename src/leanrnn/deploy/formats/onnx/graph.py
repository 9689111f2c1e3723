"""From a traced program to an ONNX graph that one can read: few nodes, names for inputs, outputs and axes."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from leanrnn import __version__
from leanrnn.deploy.containers import unused
from leanrnn.deploy.files import KEY
from leanrnn.deploy.formats.onnx.rewrites import rewritten
from leanrnn.deploy.formats.onnx.translate import ORDER, table
from leanrnn.deploy.lengths import named
from leanrnn.deploy.libraries import quietly
from leanrnn.deploy.program import Program
from leanrnn.deploy.reasons import drawn, is_draw
from leanrnn.errors import ExportError
from leanrnn.running.user_line import place_in_trace

__all__ = ["to_onnx"]

INSIDE = "model."
"""Before the names of weights: the model is traced as a part of one that takes tensors alone."""
NO_LIMIT = 1 << 40  # elements; otherwise large weights would be put in ONNX's order anew in every run


def to_onnx(program: Program, metadata: Mapping[str, Any], outputs: Sequence[str] | None, opset: int) -> Any:
    """The graph, as a model of onnx_ir."""
    from onnxscript import optimizer

    try:
        with quietly(), torch.no_grad():
            written = torch.onnx.export(
                rewritten(program.exported), (), dynamo=True, custom_translation_table=table(), opset_version=opset,
                optimize=False, verbose=False,
            )  # fmt: skip
            model = written.model  # type: ignore[union-attr]
            optimizer.optimize_ir(model, input_size_limit=NO_LIMIT, output_size_limit=NO_LIMIT)
    except Exception as error:
        raise ExportError(_untranslated(program, error)) from error
    _rename(model, program, outputs)
    model.metadata_props[KEY] = json.dumps(metadata)
    model.producer_name, model.producer_version = "leanrnn", __version__
    return model


def _rename(model: Any, program: Program, outputs: Sequence[str] | None) -> None:
    import onnx_ir

    graph = model.graph
    names = list(outputs or program.outputs)
    if len(names) != len(graph.outputs):
        raise ExportError(f"{len(names)} names for {len(graph.outputs)} outputs. Give one for each.")
    if doubled := {name for name in names if [*names, *program.inputs].count(name) > 1}:
        raise ExportError(
            f"outputs= names {doubled.pop()!r} twice, or as an input is called. Give every output a name of its own."
        )
    _own_outputs(graph)
    wanted = dict(zip([*graph.inputs, *graph.outputs], [*program.inputs, *names], strict=True))
    values = list({id(v): v for v in _values(graph)}.values())
    others = {value.name for value in values if value not in wanted}
    for value in values:
        if value not in wanted and value.name in wanted.values():
            value.name = unused(f"{value.name}/inner", others)
            others.add(value.name)
    for value, name in wanted.items():
        value.name = name
    for value in [*graph.initializers.values()]:
        if value not in wanted:
            value.name = value.name.removeprefix(INSIDE)
    used: set[str] = set()
    for node in graph:
        if node.op_type in ORDER:
            _name_layer(node, used)
    for value in values:
        if value.shape is not None:
            value.shape = onnx_ir.Shape([_named(size, program.names) for size in value.shape])


def _values(graph: Any) -> Iterator[Any]:
    """All there are, those of graphs inside of nodes too."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph.all_nodes():
        yield from (value for value in (*node.inputs, *node.outputs) if value is not None)


def _own_outputs(graph: Any) -> None:
    """An input that is given back, a weight, and what is given twice get a name of their own."""
    import onnx_ir

    seen = {id(each) for each in (*graph.inputs, *graph.initializers.values())}
    for i, value in enumerate(graph.outputs):
        if id(value) in seen:
            copy = onnx_ir.Node("", "Identity", [value])
            copy.outputs[0].shape, copy.outputs[0].type = value.shape, value.type
            graph.append(copy)
            graph.outputs[i] = copy.outputs[0]
        seen.add(id(graph.outputs[i]))


def _name_layer(node: Any, used: set[str]) -> None:
    """A recurrent node and its weights are called what the layer is called."""
    scopes = ast.literal_eval(node.metadata_props.get("pkg.torch.onnx.name_scopes", "['', '', '']"))
    kind = node.op_type + ("_reverse" if node.attributes["direction"].as_string() == "reverse" else "")
    scope = scopes[-2].removeprefix(INSIDE.removesuffix(".")).removeprefix(".")
    node.name = unused("/".join(word for word in (scope, kind) if word), used)
    used.add(node.name)
    for value, letter in zip(node.inputs[1:4], "WRB", strict=False):
        if value is not None and value.is_initializer():
            value.name = f"{node.name}/{letter}"


def _named(size: Any, names: Mapping[str, str]) -> Any:
    text = None if isinstance(size, int) else size.value
    if text is not None and str(text).isdigit():
        return int(text)
    return size if text is None else named(text, names)


def _untranslated(program: Program, error: BaseException) -> str:
    """Which operator ONNX has no counterpart for, and where the model runs it; random numbers are told as such."""
    text = str(error)
    found = re.search(r"translating node %(\w+) .*?target=(?:torch\.ops\.)?([\w.]+)\]\(args = (.*)", text)
    if found is None:
        lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
        return f"the model has no counterpart in ONNX: {lines[0].rstrip('.')}."
    name, target, rest = found.groups()
    if is_draw(target) and (random := drawn(program.exported.graph_module)):
        return random
    nodes = {node.name: node for node in program.exported.graph.nodes}
    # ONNX is asked for the parts of an operator too: then those of the model that read the same are meant.
    readers = [user for each in re.findall(r"%(\w+)", rest) if each in nodes for user in nodes[each].users]
    node = nodes.get(name) or next(iter(readers), None)
    place = place_in_trace(node.meta.get("stack_trace") or "") if node else None
    where = f" at {place}" if place else ""
    return f"ONNX has no counterpart for {target}{where}. Compute it otherwise, or leave it out of the model."
