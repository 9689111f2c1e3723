"""Compile a file of C and call it with arrays: sequences of any length, a step after the other."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leanrnn.deploy.formats.c.source import TYPES, Port, Source
from leanrnn.deploy.libraries import in_short
from leanrnn.errors import ExportError

__all__ = ["Library", "compiler"]

Arrays: TypeAlias = "Sequence[NDArray[Any]]"
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
DRIVER = """
#include "{file}"
void {name}_run({name}_state *state, int steps{parameters})
{{
    for (int t = 0; t < steps; t++)
        {name}_step(state{arguments});
}}
"""
"""Beside the file: its steps one after the other."""


def compiler() -> list[str]:
    """The command of a C compiler: that of the variable CC, else cc, gcc or clang."""
    words = shlex.split(os.environ.get("CC", ""))
    for candidate in [words] if words else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(candidate[0]):
            return candidate
    raise ExportError(
        f"there is no C compiler ({words[0] if words else 'cc, gcc or clang'}), and a file of C is compiled and "
        "compared with the model before it is kept. Install one, or say which in the variable CC."
    )


class Library:
    """A compiled file. ::

    scores, h = Library(path, source, {"h": "h_out"})([frames, h])
    """

    def __init__(self, path: Path, source: Source, inputs: Sequence[str], pairs: Mapping[str, str]) -> None:
        self.source, self.given, self.pairs = source, list(inputs), dict(pairs)
        loaded = _compiled(path, source)
        numbers = sum(each.size for each in source.states) or 1
        self.state = np.zeros(numbers, np.float32)
        self.begin, self.steps = (getattr(loaded, f"{source.name}_{word}") for word in ("init", "run"))

    def __call__(self, arrays: Arrays) -> list[NDArray[Any]]:
        """All outputs for all inputs, in the order of the model."""
        given = dict(zip(self.given, arrays, strict=True))
        ports = (*self.source.inputs, *(each for each in self.source.states if each.of))
        lengths = {
            word: {given[p.of].shape[p.shape.index(word)] for p in ports if word in p.shape}
            for word in ("batch", "time")
        }
        if any(len(found) > 1 for found in lengths.values()):
            raise ExportError("the inputs have not all as many sequences, or steps. Give them equal ones.")
        batch, time = (max(found, default=1) for found in lengths.values())
        rows = [
            self._sequence({name: _of(given[name], p, i) for p in ports for name in [p.of]}, time) for i in range(batch)
        ]
        return [self._together(name, [row[name] for row in rows]) for name in self.source.results]

    def _sequence(self, given: Mapping[str, NDArray[Any]], time: int) -> dict[str, NDArray[Any]]:
        """One sequence."""
        state = self.state.ctypes.data_as(ctypes.c_void_p)
        self.begin(state)
        pieces, begin = dict[str, NDArray[Any]](), 0
        for port in self.source.states:
            pieces[port.of] = self.state[begin : begin + port.size]
            begin += port.size
            if port.of:
                pieces[port.of][:] = given[port.of].reshape(-1)
        frames = [_frames(given[port.of], port, time) for port in self.source.inputs]
        outs = [np.zeros((time, port.size), np.float32) for port in self.source.outputs]
        self.steps(state, time, *(each.ctypes.data_as(ctypes.c_void_p) for each in (*frames, *outs)))
        found = {port.of: each for port, each in zip(self.source.outputs, outs, strict=True)}
        return found | {out: pieces[name].copy() for name, out in self.pairs.items()}

    def _together(self, name: str, rows: list[NDArray[Any]]) -> NDArray[Any]:
        """All sequences, in the shape that the model gives."""
        back = {out: name for name, out in self.pairs.items()}
        ports = {port.of: port for port in (*self.source.outputs, *self.source.states)}
        shape = ports[back.get(name, name)].shape
        inner = [1 if size == "batch" else int(size) for size in shape if size != "time"]
        if "time" in shape:
            rows = [np.moveaxis(row.reshape(-1, *inner), 0, shape.index("time")) for row in rows]
        else:
            rows = [row.reshape(-1, *inner)[-1] for row in rows]
        return np.concatenate(rows, shape.index("batch")) if "batch" in shape else rows[0]


def _compiled(path: Path, source: Source) -> ctypes.CDLL:
    """Loaded into this process."""
    ports = (*source.inputs, *source.outputs)
    parameters = "".join(f", {'const ' * (p in source.inputs)}{TYPES[p.kind]} *{p.name}" for p in ports)
    arguments = "".join(f", {p.name} + (long)t * {p.size}" for p in ports)
    text = DRIVER.format(file=path.resolve(), name=source.name, parameters=parameters, arguments=arguments)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "driver.c").write_text(text)
        for flags in (FLAGS, FLAGS[:1] + FLAGS[2:]):  # not every compiler knows the native processor
            command = [*compiler(), *flags, "driver.c", "-o", "driver.so", "-lm"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if not done.returncode:
                return ctypes.CDLL(str(Path(folder, "driver.so")))
    raise ExportError(f"{command[0]} does not compile {path}: {in_short(done.stderr)}")  # type: ignore[arg-type]


def _of(array: NDArray[Any], port: Port, i: int) -> NDArray[Any]:
    """One sequence of several."""
    return array.take([i], port.shape.index("batch")) if "batch" in port.shape else array


def _frames(array: NDArray[Any], port: Port, time: int) -> NDArray[Any]:
    """A row for every step; what has no steps is the same in all."""
    first = np.moveaxis(array, port.shape.index("time"), 0) if "time" in port.shape else np.stack([array] * time)
    return np.ascontiguousarray(first.reshape(time, port.size), port.kind)
