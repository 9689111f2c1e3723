"""Make an exported file four times smaller: weights of eight bits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.deploy.files import Arrays, free_lengths, inputs_for
from leanrnn.deploy.formats import format_to_read
from leanrnn.deploy.libraries import in_short
from leanrnn.deploy.runtimes import RUNTIMES, File
from leanrnn.deploy.timing import in_turns, quartiles, times_faster
from leanrnn.environment import check_target
from leanrnn.errors import ExportError

__all__ = ["Quantized", "Speed", "quantize"]

SIZES = ({"batch": 1, "time": 1}, {"batch": 3, "time": 20}, {"batch": 8, "time": 50})
"""At which the outputs are compared."""
OTHERS = (16, 64, 256)
"""Lengths of other names: the first at which the model runs."""
TIMED = ({"batch": 1, "time": 1}, {"batch": 1, "time": 30}, {"batch": 10, "time": 30})
"""At which both files are timed: a step as one serves it, a sequence, and many at once."""
ABOUT = 0.05
"""Less than that is not called faster or slower."""


@dataclass(frozen=True)
class Speed:
    """How long both files take on this machine, on one thread, at these lengths; ``str(speed)`` is a sentence."""

    sizes: dict[str, int]
    before: tuple[float, float]
    """Quartiles in 32 bits, in milliseconds."""
    after: tuple[float, float]
    """And in eight."""
    times_faster: float | None
    """By the medians; None if the calls took too unequal a time to tell."""

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        where = f"With {sizes}" if sizes else "As exported"
        spans = "{:.3g} to {:.3g} ms instead of {:.3g} to {:.3g} ms".format(*self.after, *self.before)
        if self.times_faster is None:
            return f"{where}, the machine is too busy to tell whether eight bits are faster than 32 ({spans})."
        if self.times_faster < 1 - ABOUT:
            how = f"SLOWER than 32, {1 / self.times_faster:.2f} times as long"
        elif self.times_faster > 1 + ABOUT:
            how = f"faster than 32, {self.times_faster:.2f} times"
        else:
            how = "as fast as 32"
        return f"{where}, eight bits are {how} on this machine ({spans})."


@dataclass(frozen=True)
class Quantized:
    """What was written, and what it changed."""

    path: Path
    bytes_before: int
    bytes_after: int
    difference: float
    """Change of the output that changes most: the root of its mean square, relative to the output's; of whole numbers
    the part that is another."""
    float_nodes: tuple[str, ...]
    """Recurrent nodes that compute in single precision, from weights that are bytes in the file only."""
    before: float | None = None
    """What ``evaluate`` said of the file it was made from."""
    after: float | None = None
    """What it says now."""
    speed: tuple[Speed, ...] = ()
    """How long both take, at several lengths."""


def quantize(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    reduce_range: bool | None = None,
    weights_only: bool = False,
    evaluate: Callable[[Path], float] | None = None,
    seconds: float = 1.0,
) -> Quantized:
    """Write a file with weights of eight bits, which onnxruntime multiplies as such. ::

        leanrnn.quantize("small.onnx")                      # small.int8.onnx
        leanrnn.quantize("small.onnx", evaluate=perplexity)  # with what it costs

    Recurrent and linear layers compute with bytes; a GRU or RNN becomes a loop of products of bytes, since onnxruntime
    has no such node. With ``weights_only`` weights are bytes in the file and numbers again when it runs
    (:attr:`Quantized.float_nodes`): the file is as small, hardly less exact, not faster, and runs wherever ONNX does,
    in OpenVINO for instance. Whether eight bits are faster depends on the processor and the widths: both files are
    timed (:attr:`Quantized.speed`).

    Arguments:
        out: the file to write; ``NAME.int8.onnx`` if not given.
        reduce_range: use seven of the eight bits. Processors without VNNI overflow otherwise; by default this one is
            asked. A file for unknown machines wants ``True``.
        weights_only: compute in single precision everywhere.
        evaluate: called with the path of both files, for instance for a perplexity.
        seconds: spent on timing; 0 leaves it out.
    """
    source = Path(path)
    form = format_to_read(source)
    metadata = form.metadata(source)
    target = Path(out) if out is not None else source.with_suffix(f".int8{form.suffix}")
    if target.suffix != form.suffix:
        raise ExportError(f"{target} does not end in {form.suffix}, as {source} does. Give it that ending.")
    check_target(target, ExportError)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        part = Path(folder) / target.name
        form.quantize(source, part, reduce_range=reduce_range, weights_only=weights_only)
        other, inputs = _inputs(form.runtime, source, metadata)
        difference = max(_change(form.runtime, source, part, each) for each in inputs)
        scored, now = (evaluate(source), evaluate(part)) if evaluate else (None, None)
        speed = _timed(form.runtime, source, part, metadata, other, seconds) if seconds > 0 else ()
        size, nodes = source.stat().st_size, form.float_nodes(part)
        form.move(part, target)
    return Quantized(target, size, target.stat().st_size, difference, nodes, scored, now, speed)


def _all_lengths(metadata: dict[str, Any], sizes: dict[str, int], other: int) -> dict[str, int]:
    return {name: sizes.get(name, other) for name in sorted(free_lengths(metadata))}


def _why_not(runtime: str, path: Path, inputs: Arrays) -> str:
    """Why a file does not run with these inputs; empty if it does."""
    try:
        RUNTIMES[runtime].open(path, inputs, None)()
    except ExportError:
        raise
    except Exception as error:  # of the runtime, for lengths that the model cannot have
        return in_short(error, 200)
    return ""


def _inputs(runtime: str, source: Path, metadata: dict[str, Any]) -> tuple[int, list[Arrays]]:
    """Inputs of several lengths, those left out that are too short for the model; and what other lengths had to be."""
    reason = ""
    for other in OTHERS:
        found = [inputs_for(metadata, _all_lengths(metadata, sizes, other)) for sizes in SIZES]
        reasons = [_why_not(runtime, source, each) for each in found]
        reason = reason or reasons[-1]
        if good := [each for each, told in zip(found, reasons, strict=True) if not told]:
            return other, good
    traced = metadata.get("traced", {})  # which the model takes for certain
    found = [inputs_for(metadata, {name: times * size for name, size in traced.items()}) for times in (1, 2)]
    if good := [each for each in found if not _why_not(runtime, source, each)]:
        return OTHERS[0], good
    raise ExportError(f"{runtime} cannot run {source} at any of the lengths tried: {reason}. Export it again.")


def _change(runtime: str, before: Path, after: Path, inputs: Arrays) -> float:
    """How far the outputs of two files are apart, that of the output which is furthest."""
    expected = RUNTIMES[runtime].open(before, inputs, None)()
    try:
        found = RUNTIMES[runtime].open(after, inputs, None)()
    except Exception as error:  # of the runtime, for a file that its quantiser should not have written
        raise ExportError(
            f"{runtime} cannot run {before} in eight bits: {in_short(error, 200)}. Take weights_only=True, or keep it "
            "as it is."
        ) from error
    return max(_apart(a, b) for a, b in zip(expected, found, strict=True))


def _apart(expected: NDArray[Any], found: NDArray[Any]) -> float:
    if not expected.size:
        return 0.0
    if expected.dtype.kind != "f":
        return float((expected != found).mean())
    known = np.isfinite(expected)  # a mask of minus infinity stays what it is
    if not known.any():
        return 0.0
    return float(np.sqrt(np.square(expected[known] - found[known]).mean() / (np.square(expected[known]).mean() or 1.0)))


def _timed(
    runtime: str, before: Path, after: Path, metadata: dict[str, Any], other: int, seconds: float
) -> tuple[Speed, ...]:
    """Both files in turns, at lengths that the model can have."""
    wanted = [_all_lengths(metadata, sizes, other) for sizes in TIMED]
    sizes = [each for i, each in enumerate(wanted) if each not in wanted[:i]]
    sizes = [each for each in sizes if not _why_not(runtime, before, inputs_for(metadata, each))]
    if not sizes:
        return ()
    files = [File(path, runtime, each) for each in sizes for path in (before, after)]
    spent = in_turns({i: file.caller(1) for i, file in enumerate(files)}, seconds, rounds=3, turn=3, warm_up=1)
    found = []
    for i, each in enumerate(sizes):
        pair = spent[2 * i], spent[2 * i + 1]
        (low, _, high), (lower, _, higher) = (quartiles([1e3 * s for s in times]) for times in pair)
        found.append(Speed(each, (low, high), (lower, higher), times_faster(*pair)))
    return tuple(found)
