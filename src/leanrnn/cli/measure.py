"""``leanrnn measure``: one model, or two, in every runtime that is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from leanrnn.cli.artefacts import Artefacts, Given, Source, artefacts, why
from leanrnn.cli.parsing import MaybePath, MaybeText, Numbers, Words
from leanrnn.cli.printing import Tell, print_json, print_table, reading
from leanrnn.errors import ConfigError, LeanRNNError

__all__ = ["Measure", "exported", "left_out", "measured"]

NOISY = """\
noisy: the upper quartile is more than 1.5 times the lower one, so other work was
going on and a ratio would mean nothing. Measure again when the machine is idle,
or for longer (--seconds)."""


@dataclass(frozen=True)
class Measure:
    """Show weights, mult-adds, latency and memory of a model in PyTorch, onnxruntime (single precision and eight bits)
    and OpenVINO, where they are installed. They run alternately, so that noise affects all of them."""

    source: Source
    """A run folder, a file that leanrnn has written, or an exported one (.onnx)."""
    against: MaybePath = None
    """A second model, measured alternately with the first. The last column compares them."""
    factory: MaybeText = None
    """For a file of your own model: MODULE:FUNCTION that returns the dense model and an example."""
    example: MaybeText = None
    """Inputs, if that function returns a model alone, such as "1,35:int64"."""
    runtimes: Words = ()
    """Any of torch, onnxruntime, int8 and openvino; all that are installed if not given."""
    batch: int = 10
    """Sequences in a batch."""
    steps: int = 30
    """Steps of each sequence."""
    threads: Numbers = ()
    """Numbers of threads to measure with; one and all if not given."""
    seconds: float = 10.0
    """Total time to spend on timing."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> None:
        """Export what has to be, then time all of it alternately."""
        import torch

        from leanrnn.environment import check_threads, environment, hold_memory

        if min(self.batch, self.steps) < 1:
            raise ConfigError("batch and steps have to be at least 1.")
        for count in self.threads:
            check_threads(count)
        if self.seconds < 0:
            raise ConfigError(f"seconds is {self.seconds:g}. Give at least 0.")
        hold_memory()
        threads = self.threads or tuple(dict.fromkeys((1, torch.get_num_threads())))
        with tempfile.TemporaryDirectory() as folder:
            sources = [self.source] if self.against is None else [self.source, self.against]
            given = [Given(source, self.factory, self.example, self.batch, self.steps) for source in sources]
            with reading(self.json) as tell:
                found = exported(given, Path(folder), self.runtimes, tell)
                rows = measured(found, threads, self.seconds, tell)
        head, failed = [each.facts for each in found], left_out(found)
        if self.json:
            print_json({"models": head, "measured": rows, "not_run": failed, "environment": environment()})
        else:
            counts = [len(each.runtimes) * len(threads) for each in found]
            _show(head, [rows[: counts[0]], rows[counts[0] :]], failed, environment())


def exported(given: list[Given], folder: Path, runtimes: tuple[str, ...], tell: Tell) -> list[Artefacts]:
    """Every model in the runtimes that are wanted; ``tell`` is that of :func:`~leanrnn.cli.printing.reading`."""
    found = []
    for i, each in enumerate(given):
        tell("exporting the models", i, len(given))
        found.append(artefacts(each, folder / str(i), runtimes))
    tell("exporting the models", len(given), len(given))
    return found


def measured(found: list[Artefacts], threads: tuple[int, ...], seconds: float, tell: Tell) -> list[dict[str, Any]]:
    """Times, sizes and memory of every model in every runtime it runs in; an error if there is none."""
    from leanrnn.deploy import timed, times_faster

    calls = dict[tuple[int, str, int], Callable[[], object]]()
    for i, each in enumerate(found):
        for runtime in list(each.runtimes):
            calls |= _ready(each, i, runtime, threads)
    if not calls:
        raise ConfigError(" ".join(_sentence(each) for each in left_out(found)))
    spent, rows = _spent(calls, seconds, tell), list[dict[str, Any]]()
    for (i, runtime, count), times in spent.items():
        tell("measuring the memory", len(rows), len(spent))
        model = found[i].runtimes[runtime]
        peak = _peak(found[i], runtime, count)
        row = timed(found[i].facts["model"], runtime, count, times, model.bytes, peak)
        other = spent.get((1, runtime, count))
        if i == 0 and other:
            row["ratio"] = times_faster(other, times)
        rows.append(row)
    tell("measuring the memory", len(rows), len(spent))
    return rows


def _spent(
    calls: Mapping[tuple[int, str, int], Callable[[], object]], seconds: float, tell: Tell
) -> dict[tuple[int, str, int], list[float]]:
    """Seconds of every call, in slices between which the bar moves."""
    from leanrnn.deploy import in_turns

    slices = max(1, min(10, int(seconds)))
    spent: dict[tuple[int, str, int], list[float]] = {key: [] for key in calls}
    for i in range(slices):
        tell("timing", i, slices)
        for key, times in in_turns(calls, seconds / slices).items():
            spent[key] += times
    tell("timing", slices, slices)
    return spent


def left_out(found: list[Artefacts]) -> list[dict[str, str]]:
    """Runtimes that were not measured, each with the reason. ::

    left_out(found)  # [{"model": "runs/mine", "runtime": "openvino", "reason": "openvino not installed. ..."}]
    """
    return [
        {"model": each.facts["model"], "runtime": name, "reason": reason}
        for each in found
        for name, reason in each.not_run.items()
    ]


def _ready(
    found: Artefacts, i: int, runtime: str, threads: tuple[int, ...]
) -> dict[tuple[int, str, int], Callable[[], object]]:
    """A call for every number of threads, each made once; none if the runtime cannot."""
    try:
        calls = {(i, runtime, count): found.runtimes[runtime].caller(count) for count in threads}
        for call in calls.values():
            call()
    except Exception as error:  # of somebody else's library: the other runtimes are measured all the same
        found.not_run[runtime] = why(error)
        del found.runtimes[runtime]
        return {}
    return calls


def _peak(found: Artefacts, runtime: str, count: int) -> int | None:
    try:
        return found.runtimes[runtime].peak_bytes(count)
    except LeanRNNError as error:
        found.not_run[f"{runtime}, peak memory"] = why(error)
        return None


def _sentence(left: Mapping[str, str]) -> str:
    return f"{left['model']} was not measured in {left['runtime']}: {left['reason']}"


def _show(
    head: list[dict[str, Any]], rows: list[list[dict[str, Any]]], failed: list[dict[str, str]],
    environment: dict[str, str],
) -> None:  # fmt: skip
    """All within 80 columns: of every model a table of its own."""
    names = ("runtime", "threads", "ms", "(quartiles)", "file", "peak memory", "faster")
    for facts, own in zip(head, rows, strict=False):
        print_table((k.replace("_", " "), f"{v:,}" if isinstance(v, int) else str(v)) for k, v in facts.items())
        print()
        lines = [(*_line(row), _ratio(row)) for row in own]
        if any("ratio" in row for row in own):
            print(f"faster: how many times faster than {head[-1]['model']}\n")
        else:
            lines = [line[:-1] for line in lines]
        if lines:
            print_table([names[: len(lines[0])], *lines])
            print()
    if any(row["noisy"] for own in rows for row in own):
        print(f"{NOISY}\n")
    for each in failed:
        print(fill(_sentence(each), 80, break_on_hyphens=False, break_long_words=False))
    if failed:
        print()
    print_table([(name, environment[name]) for name in ("processor", "torch", "python", "platform")])


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = map(_short, row["quartiles"])
    peak = row["peak_bytes"]
    return (
        row["runtime"], str(row["threads"]), _short(row["milliseconds"]),
        f"({low} to {high}){' noisy' if row['noisy'] else ''}",
        f"{row['file_bytes'] / 1e6:.2f} MB", "not known" if peak is None else f"{peak / 1e6:.0f} MB",
    )  # fmt: skip


def _short(milliseconds: float) -> str:
    """As many digits as can be meant: 0.489, 9.81, 23.5, 104."""
    return f"{milliseconds:.{3 if milliseconds < 1 else max(0, 3 - len(str(int(milliseconds))))}f}"


def _ratio(row: Mapping[str, Any]) -> str:
    """How many times faster it is than the other; nothing in the other's own row."""
    if "ratio" not in row:
        return ""
    return "noisy" if row["ratio"] is None else f"{row['ratio']:.2f}"
