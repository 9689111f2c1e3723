"""One step of a traced model as lines of C.

Its operators run on tensors of one sequence and one step, and for what each computes from the inputs there are lines.
What is only looked at in another way, as by a transpose, needs none: a tensor says where in memory its numbers are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, fx

from leanrnn.deploy.formats.c.memory import Memory, storage
from leanrnn.deploy.formats.c.source import Port, Source
from leanrnn.deploy.lengths import named
from leanrnn.deploy.libraries import in_short
from leanrnn.deploy.program import Program
from leanrnn.errors import ExportError
from leanrnn.running.user_line import place_in_trace

__all__ = ["RULES", "Call", "Lowering", "Rule", "rule"]

INSIDE = "model."
FACTORIES = ("new_zeros", "new_ones", "new_empty", "new_full", "zeros_like", "ones_like", "full_like", "empty_like")
KINDS = {torch.float32: "float32", torch.int64: "int32", torch.int32: "int32"}


@dataclass(frozen=True)
class Call:
    """An operator that is computed."""

    node: fx.Node
    given: Mapping[str, Any]
    """Its arguments by name."""
    nodes: Mapping[str, Any]
    """The same as nodes of the graph."""
    result: Any

    def __getitem__(self, name: str) -> Any:
        return self.given[name]


Rule: TypeAlias = "Callable[[Lowering, Call], Any]"
RULES: dict[str, Rule] = {}
"""How an operator is written; what a rule returns takes the place of the result."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register how operators are written."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


class Lowering(Memory, fx.Interpreter):
    """A traced model on its way into a file."""

    def __init__(self, program: Program, pairs: Mapping[str, str], outputs: tuple[str, ...], name: str) -> None:
        module = program.exported.module(check_guards=False)
        module.graph.eliminate_dead_code()
        Memory.__init__(self)
        fx.Interpreter.__init__(self, module, garbage_collect_values=False)
        self.extra_traceback = False
        self.program, self.pairs, self.names, self.title = program, pairs, outputs, name
        self.time = next((symbol for symbol, word in program.names.items() if word == "time"), "")
        """Torch's symbol for the number of steps; empty if the model takes one step, or all at once."""
        self.inputs: list[Port] = []
        self.inner: dict[str, str] = {}
        """States by the output that they become."""
        self.given = iter(program.inputs.items())

    def source(self) -> Source:
        """All of it."""
        with torch.no_grad():
            self.run(enable_io_processing=False)
        declared, scratch = self.code.planned()
        body = "".join(f"{line}\n" for line in [*declared, *self.code.lines])
        code = self.code
        return Source(
            self.title, code.arrays, code.matrices, code.tables, body, tuple(code.kernels), tuple(self.inputs),
            tuple(self.outs), tuple(code.states), self.names, scratch, code.mult_adds,
        )  # fmt: skip

    def run_node(self, n: fx.Node) -> Any:
        """One node; its tensors are kept, so that a place in memory means one thing."""
        found = self._node(n)
        self.kept.append(found)
        return found

    def _node(self, n: fx.Node) -> Any:
        if n.op == "placeholder":
            return self._input(*next(self.given), n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "output":
            self._outputs(list(args[0]), n)
            return None
        if n.op != "call_function" or not any(self.computed(each) for each in _leaves((args, kwargs))):
            return getattr(self, n.op)(n.target, args, kwargs)
        return self._computed(n, args, kwargs)

    def _input(self, name: str, shape: tuple[str | int, ...], node: fx.Node) -> Tensor:
        example = next(t for t, each in zip(_tensors(self.program), self.program.inputs, strict=True) if each == name)
        sizes = [1 if size in ("batch", "time") else size for size in shape]
        if unknown := [size for size in sizes if isinstance(size, str)]:
            raise ExportError(
                f"{name} has an axis of length {unknown[0]}, and a step of a file of C has one frame. Fix the length."
            )
        if (kind := KINDS.get(example.dtype)) is None:
            raise ExportError(f"{name} is of {example.dtype}, and a file of C takes float32 and whole numbers.")
        tensor = torch.zeros([int(size) for size in sizes], dtype=example.dtype)
        if name in self.pairs and kind == "float32":
            place = self.code.state(tensor.numel(), name, shape, of=name)
            self.inner[self.pairs[name]] = place
        else:
            place = self.code.name(name)
            self.inputs.append(Port(place, shape, tensor.numel(), kind, name))
        self.places[storage(tensor)] = place
        return tensor

    def _computed(self, n: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator that reads what only a run knows."""
        schema = getattr(n.target, "_schema", None)
        if schema is None:  # Python's own, on lists of tensors and on numbers
            return self.call_function(n.target, args, kwargs)
        given, nodes = _bound(schema, args, kwargs), _bound(schema, n.args, n.kwargs)
        word = str(n.target).removeprefix("aten.").rpartition(".")[0]
        if word in FACTORIES:
            return self.call_function(n.target, args, kwargs)
        result = self._run(n, args, kwargs)
        if not schema.is_mutable and all(self.computed(t) for t in _leaves(result) if isinstance(t, Tensor)):
            return result
        written = RULES.get(word.removesuffix("_") if schema.is_mutable else word)
        if written is None:
            raise ExportError(
                f"a file of C has no {self._told(n)}. Compute it otherwise, leave it out of the model, or "
                "export to .onnx."
            )
        self.code.add(f"/* {self.module_of(n) or 'model'}: {word.removeprefix('leanrnn.')} */")
        replaced = written(self, Call(n, given, nodes, result))
        return result if replaced is None else replaced

    def _run(self, n: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return self.call_function(n.target, args, kwargs)
        except Exception as error:
            raise ExportError(
                f"{self._told(n)} does not run on one step ({in_short(error, 150)}). Give it what it reads of "
                "the steps before: zeros in front of a convolution with torch.nn.functional.pad, or a state."
            ) from error

    def module_of(self, n: fx.Node) -> str:
        """Name of the module that a node is in."""
        stack = list((n.meta.get("nn_module_stack") or {}).values())
        return str(stack[-1][0]).removeprefix(INSIDE.rstrip(".")).removeprefix(".") if stack else ""

    def refused(self, call: Call, why: str) -> ExportError:
        """An error about an operator."""
        return ExportError(f"{self._told(call.node)} {why}")

    def _told(self, n: fx.Node) -> str:
        """An operator, the module it is in, and the user's line."""
        module, place = self.module_of(n), place_in_trace(n.meta.get("stack_trace") or "")
        word = str(n.target).removeprefix("leanrnn.").removesuffix(".default")
        return word + (f" of {module}" if module else "") + (f" at {place}" if place else "")

    def over_time(self, node: Any, axis: int) -> bool:
        """Whether an axis of a node is that of the steps."""
        shape = node.meta["val"].shape if isinstance(node, fx.Node) else ()
        return bool(self.time and shape and re.search(rf"\b{self.time}\b", str(shape[axis])))

    def _outputs(self, results: list[Any], n: fx.Node) -> None:
        """Copies into what the caller gave, then the states."""
        values = [node.meta["val"] for node in cast(list[fx.Node], n.args[0])]
        self.outs: list[Port] = []
        states = []
        for name, tensor, value in zip(self.names, results, values, strict=True):
            if name in self.inner:
                states.append((self.inner[name], tensor))
                continue
            shape = tuple(int(str(s)) if str(s).isdigit() else named(s, self.program.names) for s in value.shape)
            place = self.code.name(name)
            self.outs.append(Port(place, shape, tensor.numel(), of=name))
            source = self.read(tensor, name)
            if self.code.give(place, source, tensor.numel()):
                self.places = {key: place if each == source else each for key, each in self.places.items()}
        moved = [(target, self._apart(self.read(t, "state"), target, t.numel()), t.numel()) for target, t in states]
        for target, place, size in moved:
            if place != target:
                self.code.copy(target, place, size)

    def _apart(self, place: str, target: str, size: int) -> str:
        """What is in another state is read before that is written."""
        if not place.startswith("state->") or place == target:
            return place
        copy = self.code.buffer(size, "before")
        self.code.copy(copy, place, size)
        return copy


def _bound(schema: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    found = {each.name: each.default_value for each in schema.arguments}
    return found | dict(zip(found, args, strict=False)) | dict(kwargs)


def _leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def _tensors(program: Program) -> list[Tensor]:
    from leanrnn.deploy.containers import tensors_of

    return tensors_of(program.example)
