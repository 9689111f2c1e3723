"""Trace a model that reads numbers out of its tensors, as the longest of some lengths, or axes from a range.

Torch gives up where the size of a tensor is a number that only a run knows. With the numbers of the example at hand it
goes on, and notes what it took for granted. Much of that is harmless: a number that depends on no input, or one that is
as long as an axis, as the longest sequence is. A branch that the numbers of an input decide is not, and stays refused.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import fx
from torch._functorch import config
from torch._library.utils import MutationChecker
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

__all__ = ["RELIES", "with_values"]

RELIES = "relies_on_lengths"
"""In ``meta`` of a graph: it takes a number of an input, such as the longest of some lengths, for that of an axis."""

SIZE = re.compile(r"u\d+ >=? -?[012]|-?[012] <=? u\d+|Ne\(u\d+, [01]\)|Ne\([01], u\d+\)")
"""What holds of most sizes: that something is not empty, or not one."""
SAME = re.compile(r"Eq\((u\d+), ([^u]*)\)")
"""A number that is the length of an axis."""


def with_values(capture: Callable[[], ExportedProgram]) -> ExportedProgram:
    """What ``capture`` gives, with the numbers of the example where it needs them."""
    try:
        return capture()
    except GuardOnDataDependentSymNode as error:
        try:
            with _numbers():
                exported = capture()
        except Exception:  # of an operator whose shapes torch has wrong
            raise error from None
        if _decided_by_input(exported):
            raise error
        relies = _relies_on_input(exported)
        _forget(exported)
        exported.graph_module.meta[RELIES] = relies
        return exported


@contextlib.contextmanager
def _numbers() -> Iterator[None]:
    """Inside, tensors have their numbers while they are traced."""
    # Its check of operators that were registered takes an argument that is None for one that was written to.
    unchecked = mock.patch.object(MutationChecker, "check", lambda self: None)
    with config.patch(fake_tensor_propagate_real_tensors=True), unchecked:
        yield


def _decided_by_input(exported: ExportedProgram) -> bool:
    """Whether the trace holds only for some numbers of an input."""
    nodes, made = list(exported.graph.nodes), _of_inputs(exported)
    inputs = [node for node in nodes if node.name in exported.graph_signature.user_inputs]
    read = {name: n.args[0] for n in nodes if n in made and _is_read(n) for name in _names(n.meta["val"].node._expr)}
    shapes = [getattr(node.meta.get("val"), "shape", ()) for node in inputs]
    lengths = {str(size) for shape in shapes for size in shape}
    notes = _notes(exported)
    same = [found.groups() for text in notes if (found := SAME.fullmatch(text))]
    known = {name for name, size in same if not size.isdigit() or size in lengths}
    for text in notes:
        about = _names(text) & read.keys()
        if any(read[name].meta["val"].dtype is torch.bool for name in about):
            return True
        if not about <= known and not SIZE.fullmatch(text):
            return True
    return False


def _relies_on_input(exported: ExportedProgram) -> bool:
    """Whether a number that an input decides is taken for the length of an axis."""
    values = [value for node in _of_inputs(exported) for value in pytree.tree_leaves(node.meta.get("val"))]
    sizes = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value])]
    # As they were before torch took one for the other.
    decided = _names([size.node._expr for size in sizes if isinstance(size, torch.SymInt)])
    return any(found[1] in decided for text in _notes(exported) if (found := SAME.fullmatch(text)))


def _of_inputs(exported: ExportedProgram) -> set[fx.Node]:
    """What depends on the numbers of an input."""
    made = {node for node in exported.graph.nodes if node.name in exported.graph_signature.user_inputs}
    for node in exported.graph.nodes:
        if made.intersection(node.all_input_nodes) and node.target is not torch.ops.aten.sym_size.int:
            made.add(node)
    return made


def _notes(exported: ExportedProgram) -> list[str]:
    """What the trace took for granted."""
    asserts = filter(_is_assert, exported.graph.nodes)
    return [str(node.args[1]).partition("expression ")[2].partition(" on node")[0] for node in asserts]


def _names(text: object) -> set[str]:
    """Torch's symbols for numbers that were read."""
    return set(re.findall(r"u\d+", str(text)))


def _is_read(node: fx.Node) -> bool:
    """Whether it takes a number out of a tensor."""
    kinds = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
    return node.target in kinds and isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool)


def _is_assert(node: fx.Node) -> bool:
    return node.target is torch.ops.aten._assert_scalar.default


def _forget(exported: ExportedProgram) -> None:
    """Take out what was only noted."""
    graph = exported.graph
    for value in pytree.tree_leaves([node.meta.get("val") for node in graph.nodes]):
        if isinstance(value, FakeTensor):
            value.real_tensor, value.fake_mode.propagate_real_tensors = None, False
    for node in list(filter(_is_assert, graph.nodes)):
        graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)
    exported.graph_module.recompile()
