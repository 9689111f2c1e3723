"""``leanrnn measure``: one model, or two, in every runtime that is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanrnn.cli.artefacts import Artefacts, Given, Source, artefacts
from leanrnn.cli.printing import print_json, print_table
from leanrnn.errors import ConfigError

__all__ = ["Measure", "measured"]


@dataclass(frozen=True)
class Measure:
    """Weights, mult-adds, latency and memory of a model, in PyTorch, onnxruntime (in single precision and in eight
    bits) and OpenVINO, as far as they are installed; all take turns."""

    source: Source
    """A run folder, a file that leanrnn has written, or an exported one (.onnx)."""
    against: Path | None = None
    """Another one, measured in the same run; the ratios are the other's over this one's."""
    factory: str | None = None
    """For a file of your own model: MODULE:FUNCTION that returns the dense model and an example."""
    example: str | None = None
    """Inputs, if that function returns a model alone, such as "1,35:int64"."""
    runtimes: tuple[str, ...] = ()
    """Of torch, onnxruntime, int8 and openvino those to measure; what is installed if not given."""
    batch: int = 10
    """Sequences side by side."""
    steps: int = 30
    """Of each."""
    threads: tuple[int, ...] = ()
    """Numbers of threads to measure with; one and all if not given."""
    seconds: float = 10.0
    """To spend on timing, all together."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> None:
        """Export what has to be, then let all have their turns."""
        import torch

        from leanrnn.environment import environment, hold_memory

        if min(self.batch, self.steps, *self.threads) < 1:
            raise ConfigError("batch, steps and threads have to be at least 1.")
        hold_memory()
        threads = self.threads or tuple(dict.fromkeys((1, torch.get_num_threads())))
        with tempfile.TemporaryDirectory() as folder:
            sources = [self.source] if self.against is None else [self.source, self.against]
            given = [Given(source, self.factory, self.example, self.batch, self.steps) for source in sources]
            found = [artefacts(each, Path(folder) / str(i), self.runtimes) for i, each in enumerate(given)]
            rows = list(measured(found, threads, self.seconds))
        head = [each.facts for each in found]
        if self.json:
            print_json({"models": head, "measured": rows, "environment": environment()})
        else:
            _show(head, rows, environment())


def measured(found: list[Artefacts], threads: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """Times, sizes and memory of every model in every runtime it has a file for."""
    from leanrnn.deploy import in_turns, quartiles, timed

    calls: dict[tuple[int, str, int], Callable[[], object]] = {
        (i, runtime, count): model.caller(count)
        for count in threads
        for i, each in enumerate(found)
        for runtime, model in each.runtimes.items()
    }
    spent = in_turns(calls, seconds)
    for (i, runtime, count), times in spent.items():
        model = found[i].runtimes[runtime]
        row = timed(found[i].facts["model"], runtime, count, times, model.bytes, model.peak_bytes(count))
        other = spent.get((1, runtime, count))
        if i == 0 and other:
            row["ratio"] = quartiles(other)[1] * 1e3 / row["milliseconds"]
        yield row


def _show(head: list[dict[str, Any]], rows: list[dict[str, Any]], environment: dict[str, str]) -> None:
    for facts in head:
        print_table((k.replace("_", " "), f"{v:,}" if isinstance(v, int) else str(v)) for k, v in facts.items())
        print()
    names = ["model", "runtime", "threads", "milliseconds (quartiles)", "file", "peak memory"]
    compared = any("ratio" in row for row in rows)
    lines = [(*names, "times faster") if compared else tuple(names)]
    for row in rows:
        low, high = row["quartiles"]
        line = (
            row["model"], row["runtime"], str(row["threads"]), f"{row['milliseconds']:.3f} ({low:.3f} to {high:.3f})",
            f"{row['file_bytes'] / 1e6:.2f} MB", f"{row['peak_bytes'] / 1e6:.0f} MB",
        )  # fmt: skip
        lines.append((*line, f"{row['ratio']:.2f}" if "ratio" in row else "") if compared else line)
    print_table(lines)
    print()
    print_table([(name, environment[name]) for name in ("processor", "torch", "python", "platform")])
