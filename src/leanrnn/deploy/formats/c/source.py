"""A file of C and its header: the text, and reading it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.deploy.files import KEY
from leanrnn.deploy.formats.c.kernels import KERNELS, needed

__all__ = ["TYPES", "Port", "Source", "identifier", "stem"]

TYPES = {"float32": "float", "int8": "signed char", "int32": "int"}
"""What numbers are in C."""
WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main state "
    "scratch rounded".split()
)
"""Names that a variable cannot have."""
ARRAY = re.compile(r"^static const (float|signed char) (\w+)\[\d+\] = \{([^}]*)\};$", re.MULTILINE)
BODY = re.compile(r"^    /\* begin \*/\n(.*)^    /\* end \*/\n", re.MULTILINE | re.DOTALL)
MATH = re.compile(r"\b(?:sqrt|log|log1p|erf|sin|cos|fabs)f\(")
"""Functions of ``math.h``."""
WIDTH = 120


@dataclass(frozen=True)
class Port:
    """A tensor that goes in, comes out, or stays from step to step."""

    name: str
    """In C."""
    shape: tuple[str | int, ...]
    """Its axes in the model."""
    size: int
    """Numbers in a step."""
    kind: str = "float32"
    of: str = ""
    """In the model; empty if only the file knows it."""
    start: str = ""
    """Of a state: the array that it begins with; zeros without one."""


@dataclass(frozen=True)
class Source:
    """All that is in a file."""

    name: str
    """In front of the functions."""
    arrays: Mapping[str, NDArray[Any]]
    matrices: Mapping[str, tuple[int, int]]
    """Arrays that are multiplied with a vector: rows and columns."""
    tables: Mapping[str, int]
    """Arrays that rows are looked up in: how many there are."""
    body: str
    """Of the step."""
    kernels: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...]
    results: tuple[str, ...]
    """All outputs of the model, in order; some are states."""
    scratch: int
    """Numbers in the step's own memory."""
    mult_adds: int
    rounded: int = 0
    """Numbers of 16 bits in it besides."""

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of weights, of the state and of the stack, and mult-adds of a step."""
        return {
            "weights_bytes": sum(each.nbytes for each in self.arrays.values()),
            "state_bytes": 4 * sum(each.size for each in self.states),
            "scratch_bytes": 4 * self.scratch + 2 * self.rounded,
            "mult_adds": self.mult_adds,
        }

    def told(self) -> str:
        """The same in words."""
        bytes_of = [
            f"{name.removesuffix('_bytes')} {value:,} bytes" for name, value in self.sizes.items() if "_bytes" in name
        ]
        return "; ".join([*bytes_of, f"{self.mult_adds:,} mult-adds a step"])

    def header(self) -> str:
        """The text of the header."""
        guard = f"{self.name.upper()}_H"
        members = "".join(f"    float {each.name}[{each.size}];\n" for each in self.states) or "    float unused;\n"
        return (
            f"/* Written by leanrnn. One step a call: {self.told()}. */\n"
            f"#ifndef {guard}\n#define {guard}\n#ifdef __cplusplus\n" + 'extern "C" {\n#endif\n\n'
            f"typedef struct {{\n{members}}} {self.name}_state;\n\n"
            f"/* Before the first step of a sequence. */\nvoid {self.name}_init({self.name}_state *state);\n\n"
            f"void {self.name}_step({self._parameters()});\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n"
        )

    def text(self, metadata: Mapping[str, Any], header: str) -> str:
        """The text of the file, with what it says of itself in its last comment."""
        kernels = [KERNELS[name].text for name in needed(self.kernels)]
        includes = ["#include <math.h>\n"] * bool(MATH.search("".join([*kernels, self.body]))) + [
            "#include <stdint.h>\n"
        ]
        start = "".join(_started(each) for each in self.states) or "    state->unused = 0.0f;\n"
        own = (f"    float scratch[{self.scratch}];\n" if self.scratch else "") + (
            f"    int16_t rounded[{self.rounded}];\n" if self.rounded else ""
        )
        unused = "" if self.states else "    (void)state;\n"
        about = json.dumps({**metadata, "c": self._layout()}).replace("*/", "*\\/")
        return "".join(
            [
                f"/* Written by leanrnn. C99 without allocation. Compile with -O3.\n   {self.told()}. */\n",
                *includes,
                f'#include "{header}"\n\n',
                *(_array(name, each) for name, each in self.arrays.items()),
                *kernels,
                f"\nvoid {self.name}_init({self.name}_state *state)\n{{\n{start}}}\n",
                f"\nvoid {self.name}_step({self._parameters()})\n{{\n{unused}{own}",
                f"    /* begin */\n{self.body}    /* end */\n}}\n",
                f"\n/* {KEY}: {about} */\n",
            ]
        )

    @classmethod
    def read(cls, text: str, metadata: Mapping[str, Any]) -> Source:
        """What :meth:`text` has written."""
        layout = dict(metadata["c"])
        found = BODY.search(text)
        if found is None:
            raise ValueError("it has no step")
        for name in ("inputs", "outputs", "states"):
            layout[name] = tuple(Port(**(each | {"shape": tuple(each["shape"])})) for each in layout[name])
        return cls(
            **layout
            | {
                "arrays": dict(_arrays(text)),
                "body": found[1],
                "kernels": tuple(layout["kernels"]),
                "results": tuple(layout["results"]),
            }
        )

    def _parameters(self) -> str:
        given = [f"const {TYPES[each.kind]} {each.name}[{each.size}]" for each in self.inputs]
        return ", ".join([f"{self.name}_state *state", *given, *(f"float {o.name}[{o.size}]" for o in self.outputs)])

    def _layout(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name not in ("arrays", "body")}
        return found | {name: [vars(each) for each in found[name]] for name in ("inputs", "outputs", "states")}


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """A name in C that is like ``text``, and none of those taken."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII)
    word = f"_{word}" if not word or word[0].isdigit() else word
    used, found, number = WORDS | KERNELS.keys() | set(taken), word, 2
    while found in used:
        found, number = f"{word}_{number}", number + 1
    return found


def stem(path: Path) -> str:
    """What the functions of a file are called by: a file in eight bits has those of the one that it was made from."""
    return identifier(path.name.partition(".")[0])


def _started(state: Port) -> str:
    value = f"{state.start}[i]" if state.start else "0.0f"
    return f"    for (int i = 0; i < {state.size}; i++)\n        state->{state.name}[i] = {value};\n"


def _array(name: str, values: NDArray[Any]) -> str:
    """Numbers in hexadecimal: those of the model to the last bit."""
    words = [_hexadecimal(each) if values.dtype == np.float32 else str(each) for each in values.tolist()]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {word},"
    return f"static const {TYPES[str(values.dtype)]} {name}[{len(words)}] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def _hexadecimal(value: float) -> str:
    """0x1.8p-1f; 0.0f."""
    mantissa, exponent = value.hex().split("p")
    return f"{value:.1f}f" if value == int(value) and abs(value) < 100 else f"{mantissa.rstrip('0')}p{exponent}f"


def _arrays(text: str) -> Iterable[tuple[str, NDArray[Any]]]:
    for kind, name, numbers in ARRAY.findall(text):
        words = numbers.replace("\n", " ").replace(" ", "").split(",")[:-1]
        if kind == "float":
            yield name, np.array([_number(word.removesuffix("f")) for word in words], np.float32)
        else:
            yield name, np.array(words, np.int8)


def _number(word: str) -> float:
    return float.fromhex(word) if "x" in word else float(word)
