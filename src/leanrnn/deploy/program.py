"""From a model and an example to a graph of torch's operators in which batch and time may have any length."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from leanrnn.deploy.libraries import quietly
from leanrnn.deploy.loops import rolled
from leanrnn.deploy.tracing import whole_layers
from leanrnn.deploy.values import with_values
from leanrnn.errors import ExportError
from leanrnn.layers import States
from leanrnn.running.call import arguments, call
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.refused import refused
from leanrnn.running.user_line import user_place

__all__ = ["Program", "capture", "longer", "reason", "tensors_of", "trace", "unused"]

LAYERS = ("leanrnn.lstm.default", "leanrnn.gru.default", "leanrnn.rnn.default")


@dataclass(frozen=True)
class Program:
    """A traced model."""

    exported: ExportedProgram
    example: Any
    """What it was traced with: no axis that may have any length is of length 1."""
    inputs: dict[str, tuple[str | int, ...]]
    """Names of the tensors that go in, and their axes: a number is fixed, a word may be anything."""
    names: dict[str, str]
    """Torch's symbols for those lengths, and ours."""
    lengths: tuple[str, ...] = ()
    """Inputs that are the lengths of padded sequences."""

    @property
    def axes(self) -> list[str]:
        """Names of the lengths that may be anything."""
        return list(dict.fromkeys(size for shape in self.inputs.values() for size in shape if isinstance(size, str)))


def trace(model: nn.Module, example: Any, fixed: bool = False) -> Program:
    """Follow ``model`` on ``example``. Which lengths may vary is found out on the way; unless ``fixed``, none that the
    model itself can vary may come out as fixed."""
    example = _grown(model, example)
    try:
        with quiet(model), whole_layers(), quietly():
            exported = capture(model, example)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(
            f"the model cannot be traced as a graph ({reason(error)}): what it does depends on values that only a "
            "run knows."
        ) from error
    program = _described(exported, example)
    if not fixed and (refused := _fixed(model, program)):
        again = _rolled(model, exported, example)
        if again is None or _fixed(model, again):
            raise ExportError(refused)
        return again
    return program


def capture(model: nn.Module, example: Any) -> ExportedProgram:
    """Torch's own trace, in which any length may vary that nothing holds."""
    args, kwargs = arguments(example)
    shapes = _shapes(model, example)
    return with_values(lambda: torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False))


def _shapes(model: nn.Module, example: Any) -> dict[str, Any]:
    args, kwargs = arguments(example)
    bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    return {name: _any_length(value) for name, value in bound.items()}


def _rolled(model: nn.Module, exported: ExportedProgram, example: Any) -> Program | None:
    """The same with its loop over time as a scan, traced again; None if that cannot be done."""
    args, kwargs = arguments(example)
    try:
        with quietly():
            module = rolled(exported.module(check_guards=False))
            if module is None:
                return None
            shapes = _shapes(model, example)  # by the names of the model's own forward
            again = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
        return _described(again, example)
    except Exception:  # of torch's scan, which takes fewer programs than Python
        return None


def _any_length(value: Any) -> Any:
    """For every tensor inside, that all its axes may have any length."""
    if isinstance(value, Tensor):
        return dict.fromkeys(range(value.dim()), Dim.AUTO)
    if isinstance(value, Mapping):
        return {key: _any_length(each) for key, each in value.items()}
    if isinstance(value, tuple | list | States):
        found = [_any_length(each) for each in value]
        return tuple(found) if isinstance(value, tuple) else found
    return None


def _fixed(model: nn.Module, program: Program) -> str:
    """What to say of a length that the model can vary and its graph cannot: a loop over time in Python is as long there
    as it was in the example."""
    places: dict[int, list[tuple[int, int]]] = {}
    for i, shape in enumerate(program.inputs.values()):
        for axis, size in enumerate(shape):
            if isinstance(size, int) and size > 1:
                places.setdefault(size, []).append((i, axis))
    for size, where in places.items():
        for chosen in {tuple(where), *((place,) for place in where)}:
            if _runs(model, longer(program.example, chosen)):
                name, axis = list(program.inputs)[chosen[0][0]], chosen[0][1]
                return (
                    f"the model takes any length along axis {axis} of {name}, but its graph only {size}, the one of "
                    "the example, as after a loop over the steps in Python that is not the same in every step. Use "
                    "nn.LSTM, nn.GRU, nn.RNN or torch's scan in its place, or allow it with fixed=True."
                )
    return ""


def _grown(model: nn.Module, example: Any) -> Any:
    """An example in which no batch and no time is of length 1, which tracing takes for a fixed one. Whether an axis can
    grow is tried: alone, or with the first, second or third axes of the other inputs."""
    try:
        with quiet(model), torch.no_grad():
            call(model, copy_example(example))
    except Exception as error:
        raise ExportError(refused(model, example, error)) from error
    tensors = tensors_of(example)
    ones = [(i, axis) for i, leaf in enumerate(tensors) for axis, size in enumerate(leaf.shape) if size == 1]
    grown: tuple[tuple[int, int], ...] = ()
    for place in ones:
        others = [other for other in ones if other not in grown and other[0] != place[0]]
        for along in () if place in grown else ((), *(tuple(p for p in others if p[1] == axis) for axis in range(3))):
            if _runs(model, longer(example, (*grown, place, *along))):
                grown = (*grown, place, *along)
                break
    return longer(example, grown)


def tensors_of(example: Any) -> list[Tensor]:
    """The tensors that go in, in the order of ``Program.inputs``."""
    return [leaf for leaf in pytree.tree_leaves(example) if isinstance(leaf, Tensor)]


def longer(example: Any, places: Iterable[tuple[int, int]]) -> Any:
    """The example with one more entry along some axes of its tensors."""
    leaves, structure = pytree.tree_flatten(example)
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    for i, axis in places:
        tensor = leaves[where[i]]
        leaves[where[i]] = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
    return pytree.tree_unflatten(leaves, structure)


def _runs(model: nn.Module, example: Any) -> bool:
    try:
        with quiet(model), quietly(), torch.no_grad():
            call(model, copy_example(example))
    except Exception:
        return False
    return True


def _described(exported: ExportedProgram, example: Any) -> Program:
    """Give the lengths names: time and batch are those that recurrent layers read as such."""
    names: dict[str, str] = {}
    lengths: list[str] = []
    batch: Any = None
    nodes = {node.name: node for node in exported.graph.nodes}
    for node in nodes.values():
        if (source := _stepped(node)) is not None:
            shape = source.meta["val"].shape
            batch = shape[1] if batch is None and len(shape) > 1 else batch
            # Of a scan over anything the first axis is time; a second one is the batch if there is a third.
            for word, size in zip(("time", "batch"), shape if len(shape) > 2 else shape[:1], strict=False):
                if _is_free(size):
                    names.setdefault(str(size), unused(word, names.values()))
            lengths += _lengths(node) if str(node.target) in LAYERS else []
    inputs = {}
    for name in exported.graph_signature.user_inputs:
        if isinstance(name, str) and isinstance(value := nodes[name].meta.get("val"), Tensor):
            for size in filter(_is_free, value.shape):
                # Sorting by length hides from tracing that there are as many sequences as lengths.
                hidden = lengths and _hint(size) == _hint(batch)
                names.setdefault(str(size), "batch" if hidden else unused("length", names.values()))
            inputs[name] = tuple(_named(size, names) for size in value.shape)
    return Program(exported, example, inputs, names, tuple(dict.fromkeys(lengths)))


def _stepped(node: Any) -> Any:
    """What a node reads step by step, if it is a recurrent layer or a scan."""
    if node.op != "call_function":
        return None
    if str(node.target) in LAYERS:
        return node.args[0]
    return node.args[2][0] if str(node.target) == "scan" and node.args[2] else None


def _is_free(size: Any) -> bool:
    """Whether a length is a symbol of its own; one that turned out to be fixed prints as a number."""
    return isinstance(size, torch.SymInt) and str(size).isidentifier()


def _hint(size: Any) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def _lengths(node: Any) -> list[str]:
    """The input that the lengths of a recurrent node come from."""
    index = [argument.name for argument in node.target._schema.arguments].index("lengths")
    source = node.args[index] if index < len(node.args) else None
    while source is not None and source.op == "call_function":
        source = next((each for each in source.all_input_nodes), None)
    return [] if source is None else [source.name]


def unused(word: str, taken: Collection[str]) -> str:
    """``word``, or with a number behind it if there is one of that name."""
    others = (f"{word}_{i}" for i in itertools.count(2))
    return word if word not in taken else next(each for each in others if each not in taken)


def _named(size: Any, names: Mapping[str, str]) -> str | int:
    if isinstance(size, int) or str(size).isdigit():
        return int(str(size))
    return re.sub(r"[a-z]+\d+", lambda match: names.get(match[0], match[0]), str(size))


def reason(error: BaseException) -> str:
    """What went wrong, and where in the user's own code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    place = user_place(error)
    what = f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
    return f"{what}, at {place}" if place else what
