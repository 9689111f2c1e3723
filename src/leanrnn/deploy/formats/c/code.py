"""What a step is written into: lines of C, the arrays they read, and the memory they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from leanrnn.deploy.formats.c.kernels import KERNELS
from leanrnn.deploy.formats.c.source import Port, identifier

__all__ = ["Code", "item", "loop", "moved", "number"]

INDICES = "ijklmn"


@dataclass
class Code:
    """Lines so far, and what they use."""

    taken: set[str] = field(default_factory=set)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    matrices: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Arrays that are multiplied with a vector: rows and columns."""
    tables: dict[str, int] = field(default_factory=dict)
    """Arrays that rows are looked up in: how many."""
    buffers: dict[str, int] = field(default_factory=dict)
    """Numbers in each piece of the step's own memory."""
    states: list[Port] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    kernels: dict[str, None] = field(default_factory=dict)
    mult_adds: int = 0

    def name(self, hint: str) -> str:
        """A name of its own."""
        found = identifier(hint, self.taken)
        self.taken.add(found)
        return found

    def array(self, values: Tensor, hint: str) -> str:
        """Constants, in order."""
        name = self.name(hint)
        self.arrays[name] = values.detach().float().cpu().contiguous().numpy().reshape(-1)
        return name

    def buffer(self, size: int, hint: str) -> str:
        """A piece of memory for numbers of this step."""
        name = self.name(hint)
        self.buffers[name] = size
        return name

    def state(
        self, size: int, hint: str, shape: Sequence[str | int] = (), start: Tensor | None = None, of: str = ""
    ) -> str:
        """Numbers that stay until the next step, zeros at first."""
        name = self.name(hint)
        begins = "" if start is None or not start.count_nonzero() else self.array(start, f"{name}_start")
        self.states.append(Port(name, tuple(shape), size, of=of, start=begins))
        return f"state->{name}"

    def add(self, *lines: str) -> None:
        """Lines, indented by four more."""
        self.lines += [f"    {line}" for line in lines]

    def call(self, kernel: str, *arguments: str | int) -> None:
        """A call of a function of the file."""
        self.kernels[kernel] = None
        self.add(f"{kernel}({', '.join(map(str, arguments))});")

    def copy(self, target: str, source: str, size: int) -> None:
        """Numbers from one place to another."""
        self.add(f"for (int i = 0; i < {size}; i++)", f"    {item(target)} = {item(source) if source else '0.0f'};")

    def give(self, output: str, source: str, size: int) -> bool:
        """Numbers for the caller: whether they can be written there at once, as they have memory of their own."""
        if self.buffers.get(source) == size:
            del self.buffers[source]
            self.lines = [line if "/*" in line else re.sub(rf"\b{source}\b", output, line) for line in self.lines]
            return True
        self.copy(output, source, size)
        return False

    def formula(self, target: str, formula: str, source: str, size: int) -> None:
        """``target = formula`` for every number of ``source``."""
        self.use(formula)
        self.add(f"for (int i = 0; i < {size}; i++)", f"    {item(target)} = {formula.format(item(source))};")

    def use(self, formula: str) -> None:
        """Note the functions that a formula calls."""
        self.kernels |= dict.fromkeys(name for name in re.findall(r"\b(\w+)\(", formula) if name in KERNELS)

    def add_product(self, target: str, source: str, weight: Tensor, hint: str) -> None:
        """Add a matrix (rows, columns) times a vector."""
        rows, columns = weight.shape
        name = self.array(weight.t(), hint)
        self.matrices[name] = (rows, columns)
        self.call("add_product", target, source, name, rows, columns)
        self.mult_adds += rows * columns

    def planned(self) -> tuple[list[str], int]:
        """Declarations of the buffers in one array, and its length: what is needed no more makes room."""
        lines = [set(re.findall(r"\w+", line)) for line in self.lines]
        used = [(name, [i for i, words in enumerate(lines) if name in words]) for name in self.buffers]
        placed: list[tuple[int, int, int, int]] = []  # first line, last line, begin, end
        found = []
        for name, places in sorted((each for each in used if each[1]), key=lambda each: each[1][0]):
            first, last, size = places[0], places[-1], -(-self.buffers[name] // 4) * 4
            begin = 0
            for _, _, start, end in sorted((p for p in placed if p[1] >= first), key=lambda p: p[2]):
                if begin + size <= start:
                    break
                begin = max(begin, end)
            placed.append((first, last, begin, begin + size))
            found.append(f"    float *const {name} = scratch + {begin};")
        return found, max((end for *_, end in placed), default=0)


def loop(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[str], list[str]]:
    """Heads of loops over a shape, as few as the strides of all operands allow, and the index of each operand."""
    merged: list[list[int]] = []
    for size, *steps in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        if merged and all(before == size * now for before, now in zip(merged[-1][1:], steps, strict=True)):
            merged[-1] = [merged[-1][0] * size, *steps]
        else:
            merged.append([size, *steps])
    named = list(zip(INDICES, merged, strict=False))
    heads = [f"{'    ' * n}for (int {v} = 0; {v} < {size}; {v}++)" for n, (v, (size, *_)) in enumerate(named)]
    indices = []
    for operand in range(len(strides)):
        terms = [
            v if each[operand + 1] == 1 else f"{each[operand + 1]} * {v}" for v, each in named if each[operand + 1]
        ]
        indices.append(" + ".join(terms) or "0")
    return heads, indices


def number(value: float) -> str:
    """A constant in C."""
    text = repr(float(np.float32(value)))
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def moved(place: str, by: int) -> str:
    """``x + 3``, so many numbers behind a place."""
    name, _, offset = place.partition(" + ")
    total = int(offset or 0) + by
    return f"{name} + {total}" if total else name


def item(place: str, index: str = "i") -> str:
    """``x[i]``, ``x[3 + i]``: a number behind a place."""
    name, _, offset = place.partition(" + ")
    return f"{name}[{offset} + {index}]" if offset else f"{name}[{index}]"
