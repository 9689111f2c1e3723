"""Which lengths of a traced graph may vary, and what they are called: time, batch, or length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from leanrnn.deploy.containers import unused
from leanrnn.deploy.taken import steps_of

__all__ = ["Lengths", "Place", "is_number", "named", "place_name", "words_in"]

Place = tuple[int, int]
"""The number of an input, and one of its axes."""
LAYERS = ("leanrnn.lstm.default", "leanrnn.gru.default", "leanrnn.rnn.default")
SYMBOL = r"\b[a-z]+\d+\b"


class Lengths:
    """The lengths of a graph: time and batch are those that recurrent layers read as such."""

    def __init__(self, exported: ExportedProgram, inputs: list[str]) -> None:
        """``inputs`` are our names of what goes in."""
        self.names: dict[str, str] = {}
        """Torch's symbols, and what we call them."""
        self.nodes = {node.name: node for node in exported.graph.nodes}
        given = dict(zip((str(each) for each in exported.graph_signature.user_inputs), inputs, strict=True))
        shapes = {ours: self.nodes[name].meta["val"].shape for name, ours in given.items()}
        self.fixed: dict[str, int] = {}
        """What recurrent layers read as time or batch, and what is a number."""
        self.batch: Any = None
        lengths = [source for node in self.nodes.values() for source in self._read(node, shapes)]
        flat = [given[name] for name in lengths if name in given and len(shapes[given[name]]) == 1]
        self.sequences = tuple(dict.fromkeys(flat))
        """Inputs that are the lengths of padded sequences."""
        for shape in shapes.values():
            for size in shape:
                for symbol in re.findall(SYMBOL, str(size)):
                    # Sorting by length hides from tracing that there are as many sequences as lengths.
                    hidden = lengths and symbol == str(size) and _hint(size) == _hint(self.batch)
                    word = "batch" if hidden else unused("length", self.names.values())
                    self.names.setdefault(symbol, word)
        self.inputs = {name: tuple(_size(each, self.names) for each in shape) for name, shape in shapes.items()}
        """The axes of what goes in: a number is fixed, a word may be anything."""

    def _read(self, node: Any, shapes: Mapping[str, Any]) -> list[str]:
        """Name the lengths of what a recurrent layer or a scan reads; inputs that its lengths come from."""
        if (source := _stepped(node)) is None:
            return []
        shape = source.meta["val"].shape
        self.batch = shape[1] if self.batch is None and len(shape) > 1 else self.batch
        # Of a scan over anything the first axis is time; a second one is the batch if there is a third.
        for word, size in zip(("time", "batch"), shape if len(shape) > 2 else shape[:1], strict=False):
            if is_number(size):
                if int(str(size)) > 1 and any(str(size) == str(each) for each_ in shapes.values() for each in each_):
                    self.fixed.setdefault(word, int(str(size)))
            elif str(size).isidentifier():
                self.names.setdefault(str(size), unused(word, self.names.values()))
        return _lengths(node) if str(node.target) in LAYERS else []


def named(size: Any, names: Mapping[str, str]) -> str:
    """A length in our words: ``2*time + 1``."""
    return re.sub(SYMBOL, lambda match: names.get(match[0], match[0]), str(size))


def words_in(size: str | int) -> list[str]:
    """Names in a length such as ``2*time + 1``."""
    return re.findall(r"[A-Za-z_]\w*", str(size))


def is_number(size: Any) -> bool:
    """Whether a length is fixed; a symbol that turned out to be prints as a number."""
    return str(size).isdigit()


def place_name(exported: ExportedProgram, name: str, axis: int, size: int) -> str:
    """What to call an axis that is fixed: the time if something of that length is read step by step."""
    return "time" if size in steps_of(exported.graph) else f"{name}[{axis}]"


def _size(size: Any, names: Mapping[str, str]) -> str | int:
    return int(str(size)) if is_number(size) else named(size, names)


def _stepped(node: Any) -> Any:
    """What a node reads step by step, if it is a recurrent layer or a scan."""
    if node.op != "call_function":
        return None
    if str(node.target) in LAYERS:
        return node.args[0]
    return node.args[2][0] if str(node.target) == "scan" and node.args[2] else None


def _hint(size: Any) -> int | None:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def _lengths(node: Any) -> list[str]:
    """The input that the lengths of a recurrent node come from."""
    index = [argument.name for argument in node.target._schema.arguments].index("lengths")
    source = node.args[index] if index < len(node.args) else None
    while source is not None and source.op == "call_function":
        source = next(iter(source.all_input_nodes), None)
    return [] if source is None else [source.name]
