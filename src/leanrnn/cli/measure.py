"""``leanrnn measure``: one model, or two, in every runtime that is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanrnn.cli.artefacts import Artefacts, Given, Source, artefacts, why
from leanrnn.cli.parsing import MaybePath, MaybeText, Numbers, Words
from leanrnn.cli.printing import print_json, print_table
from leanrnn.errors import ConfigError, LeanRNNError

__all__ = ["Measure", "left_out", "measured"]

NOISY = """\
noisy: a quarter of the calls took half as long again as another quarter, or
longer, so other work was going on; ratios would mean nothing. Measure again
when the machine is idle, or for longer (--seconds)."""


@dataclass(frozen=True)
class Measure:
    """Weights, mult-adds, latency and memory of a model, in PyTorch, onnxruntime (in single precision and in eight
    bits) and OpenVINO, as far as they are installed. They run by turns, so that noise hits all alike."""

    source: Source
    """A run folder, a file that leanrnn has written, or an exported one (.onnx)."""
    against: MaybePath = None
    """Another one, measured in the same run; the ratios are the other's over this one's."""
    factory: MaybeText = None
    """For a file of your own model: MODULE:FUNCTION that returns the dense model and an example."""
    example: MaybeText = None
    """Inputs, if that function returns a model alone, such as "1,35:int64"."""
    runtimes: Words = ()
    """Of torch, onnxruntime, int8 and openvino those to measure; what is installed if not given."""
    batch: int = 10
    """Sequences side by side."""
    steps: int = 30
    """Of each."""
    threads: Numbers = ()
    """Numbers of threads to measure with; one and all if not given."""
    seconds: float = 10.0
    """To spend on timing, all together."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> None:
        """Export what has to be, then let all have their turns."""
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
            found = [artefacts(each, Path(folder) / str(i), self.runtimes) for i, each in enumerate(given)]
            rows = list(measured(found, threads, self.seconds))
        head, failed = [each.facts for each in found], left_out(found)
        if self.json:
            print_json({"models": head, "measured": rows, "not_run": failed, "environment": environment()})
        else:
            _show(head, rows, failed, environment())


def measured(found: list[Artefacts], threads: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """Times, sizes and memory of every model in every runtime it runs in; an error if there is none."""
    from leanrnn.deploy import in_turns, timed, times_faster

    calls = dict[tuple[int, str, int], Callable[[], object]]()
    for i, each in enumerate(found):
        for runtime in list(each.runtimes):
            calls |= _ready(each, i, runtime, threads)
    if not calls:
        raise ConfigError(" ".join(_sentence(each) for each in left_out(found)))
    spent = in_turns(calls, seconds)
    for (i, runtime, count), times in spent.items():
        model = found[i].runtimes[runtime]
        peak = _peak(found[i], runtime, count)
        row = timed(found[i].facts["model"], runtime, count, times, model.bytes, peak)
        other = spent.get((1, runtime, count))
        if i == 0 and other:
            row["ratio"] = times_faster(other, times)
        yield row


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
    head: list[dict[str, Any]], rows: list[dict[str, Any]], failed: list[dict[str, str]], environment: dict[str, str]
) -> None:
    for facts in head:
        print_table((k.replace("_", " "), f"{v:,}" if isinstance(v, int) else str(v)) for k, v in facts.items())
        print()
    names = ["model", "runtime", "threads", "milliseconds (quartiles)", "file", "peak memory"]
    compared = any("ratio" in row for row in rows)
    lines = [(*names, "times faster") if compared else tuple(names)]
    for row in rows:
        low, high = row["quartiles"]
        peak = row["peak_bytes"]
        line = (
            row["model"], row["runtime"], str(row["threads"]),
            f"{row['milliseconds']:.3f} ({low:.3f} to {high:.3f}){' noisy' if row['noisy'] else ''}",
            f"{row['file_bytes'] / 1e6:.2f} MB", "not known" if peak is None else f"{peak / 1e6:.0f} MB",
        )  # fmt: skip
        lines.append((*line, _ratio(row)) if compared else line)
    print_table(lines)
    print()
    if any(row["noisy"] for row in rows):
        print(f"{NOISY}\n")
    for each in failed:
        print(_sentence(each))
    if failed:
        print()
    print_table([(name, environment[name]) for name in ("processor", "torch", "python", "platform")])


def _ratio(row: Mapping[str, Any]) -> str:
    """How many times faster the other is; nothing in the other's own row."""
    if "ratio" not in row:
        return ""
    return "noisy" if row["ratio"] is None else f"{row['ratio']:.2f}"
