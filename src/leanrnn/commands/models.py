"""``leanrnn shrink`` and ``leanrnn measure``: what comes after training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leanrnn.commands.printing import print_json, print_table
from leanrnn.errors import ConfigError, RunError
from leanrnn.factory import build

if TYPE_CHECKING:
    from leanrnn.recipes.model import LanguageModel

__all__ = ["Measure", "Shrink"]

Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|FILE")]


@dataclass(frozen=True)
class Shrink:
    """Cut the dead components, or as many as you say, out of a run's model, and write it to a file."""

    source: Source
    """A run folder (its last checkpoint, if it is not finished) or a file it has written."""
    out: Path
    """The file to write."""
    ratio: float | None = None
    """Part of the components of every layer to cut out, those of the smallest norms; without it the dead."""
    round_to: int = 1
    """Keep a multiple of this many components in every layer."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> None:
        """Shrink, prove, write."""
        import leanrnn
        from leanrnn.recipes.job import example

        path = model_file(self.source)
        model = _load(path)
        # What is dead may be of any kind; by size of the norms only layers are cut.
        groups = leanrnn.discover(model, example(), scope="all" if self.ratio is None else "recurrent")
        small = leanrnn.shrink(model, groups, ratio=self.ratio, round_to=self.round_to)
        leanrnn.save(small, self.out, about=leanrnn.about(path))
        found = [_sizes(model), _sizes(small)]
        if self.json:
            print_json({"from": str(path), "to": str(self.out), "before": found[0], "after": found[1]})
        else:
            print_table([("", "before", "after"), *((k, str(found[0][k]), str(found[1][k])) for k in found[0])])
            print(f"{self.out} computes what {path} computes.")


@dataclass(frozen=True)
class Measure:
    """Weights, mult-adds, latency and memory of a model."""

    source: Source
    """A run folder, or a file that leanrnn has written."""
    factory: str | None = None
    """For a file of your own model: MODULE:FUNCTION that returns the dense model and an example."""
    example: str | None = None
    """Inputs, if that function returns a model alone, such as "1,35:int64"."""
    batch: int = 10
    """Streams of a language model."""
    steps: int = 30
    """Words of each."""
    threads: int | None = None
    """Threads PyTorch may use."""
    seconds: float = 2.0
    """To spend on timing."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> None:
        """Measure in this process, which is a fresh one."""
        import torch

        import leanrnn

        path, words = model_file(self.source), 0
        if self.batch < 1 or self.steps < 1:
            raise ConfigError("batch and steps have to be at least 1.")
        example: Any
        if self.factory is None:
            model: torch.nn.Module = _load(path)
            example, words = torch.zeros(self.steps, self.batch, dtype=torch.long), self.steps * self.batch
        else:
            dense, example = build(self.factory, self.example)
            model = leanrnn.load(path, lambda: dense)
        found = leanrnn.measure(model, example, threads=self.threads, seconds=self.seconds).as_dict()
        found["file_bytes"] = path.stat().st_size
        if words:
            found["mult_adds_a_word"] = found["mult_adds"] // words
        if self.json:
            print_json(found)
        else:
            low, high = found.pop("quartiles")
            found["milliseconds"] = f"{found['milliseconds']:.3f} ({low:.3f} to {high:.3f})"
            print_table((k.replace("_", " "), f"{v:,}" if isinstance(v, int) else str(v)) for k, v in found.items())


def model_file(source: Path) -> Path:
    """The file of the model: itself, that of a finished run, or of the last checkpoint of one that is not."""
    if source.is_file():
        return source
    finished = source / "model.safetensors"
    checkpoints = sorted(source.glob("checkpoints/[0-9]*/model.safetensors"))
    if finished.is_file() or checkpoints:
        return finished if finished.is_file() else checkpoints[-1]
    raise RunError(f"there is no model in {source}. Name a file, or a run that has written a checkpoint.")


def _load(path: Path) -> LanguageModel:
    from leanrnn.recipes.model import load_language_model

    return load_language_model(path)


def _sizes(model: Any) -> dict[str, Any]:
    return {
        "embedding": int(model.embedding.weight.size(1)),
        "widths": " + ".join(map(str, model.widths)),
        "weights": sum(p.numel() for p in model.parameters()),
    }
