"""What a user may name on the command line as a model, and the files made of it to measure or to keep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import tyro

from leanrnn.cli.factory import build
from leanrnn.errors import ConfigError

if TYPE_CHECKING:
    import torch

__all__ = ["Artefacts", "Given", "Source", "artefacts"]

Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|FILE")]


@dataclass(frozen=True)
class Given:
    """A model as it was named, and how large its input is to be."""

    source: Path
    factory: str | None = None
    example: str | None = None
    batch: int = 10
    steps: int = 30

    def model(self) -> tuple[torch.nn.Module, Any]:
        """The model, and an input for it."""
        import leanrnn
        from leanrnn.lab.runs import model_file
        from leanrnn.lab.task import task_of

        path = model_file(self.source)
        if self.factory is not None:
            dense, example = build(self.factory, self.example)
            return leanrnn.load(path, lambda: dense), example
        about = leanrnn.about(path)
        task = task_of(about)
        return task.load(path), task.inputs(about, self.batch, self.steps)


class Measurable(Protocol):
    """A model in a runtime."""

    def caller(self, threads: int) -> Callable[[], object]:
        """One call of it."""

    @property
    def bytes(self) -> int:
        """Size of its file."""

    def peak_bytes(self, threads: int) -> int:
        """The most memory a fresh process needs that only runs it."""


@dataclass(frozen=True)
class Loaded:
    """A model as it is, in PyTorch."""

    given: Given
    path: Path
    model: Any
    example: Any

    def caller(self, threads: int) -> Callable[[], object]:
        """One call of it."""
        from leanrnn.deploy import model_call

        return model_call(self.model, self.example, threads)

    @property
    def bytes(self) -> int:
        """Size of the file it was read from."""
        return self.path.stat().st_size

    def peak_bytes(self, threads: int) -> int:
        """Of a process that makes the model and runs it."""
        from leanrnn.deploy import peak_of_fresh_process

        given = self.given
        words = (given.factory or "", given.example or "", str(given.batch), str(given.steps))
        return peak_of_fresh_process("leanrnn.cli.artefacts", str(given.source), str(threads), *words)


@dataclass(frozen=True)
class Artefacts:
    """What is known of a model, and the model in every runtime it is measured in."""

    facts: dict[str, Any]
    runtimes: dict[str, Measurable]


def artefacts(given: Given, folder: Path, wanted: tuple[str, ...] = ()) -> Artefacts:
    """Whatever can be measured of a model: exported into ``folder`` for the runtimes that are wanted, or installed."""
    from leanrnn.deploy import RUNTIMES, format_of, metadata_of

    if unknown := set(wanted) - set(RUNTIMES):
        raise ConfigError(f"there is no runtime {unknown.pop()!r}. Choose of {', '.join(RUNTIMES)}.")
    names = [name for name, runtime in RUNTIMES.items() if (name in wanted if wanted else runtime.installed)]
    form = format_of(given.source)
    if form is None:
        return _of_model(given, folder, names)
    names = [name for name in names if RUNTIMES[name].reads == form.suffix]
    if not names:
        readers = ", ".join(name for name, runtime in RUNTIMES.items() if runtime.reads == form.suffix)
        raise ConfigError(
            f"none of {', '.join(wanted) or 'what is installed'} reads {form.suffix}. Choose of {readers}."
        )
    metadata = metadata_of(given.source)
    facts = {"model": str(given.source), "widths": metadata["widths"]}
    return Artefacts(facts, _of_file(given, given.source, folder, names))


def _of_model(given: Given, folder: Path, names: list[str]) -> Artefacts:
    """As it is where a runtime takes it, and exported in the formats that the others read."""
    import leanrnn
    from leanrnn.deploy import RUNTIMES
    from leanrnn.lab.runs import model_file

    model, example = given.model()
    facts, found = _facts(given, model, example), dict[str, Measurable]()
    for suffix in dict.fromkeys(RUNTIMES[name].reads for name in names if not RUNTIMES[name].in_process):
        folder.mkdir(exist_ok=True)
        written = leanrnn.export(model, example, folder / f"model{suffix}")
        found |= _of_file(given, written.path, folder, [name for name in names if RUNTIMES[name].reads == suffix])
    loaded = Loaded(given, model_file(given.source), model, example)
    found |= {name: loaded for name in names if RUNTIMES[name].in_process}
    return Artefacts(facts, {name: found[name] for name in names})


def _of_file(given: Given, path: Path, folder: Path, names: list[str]) -> dict[str, Measurable]:
    """An exported file in the runtimes that read it, for some of them with weights of eight bits."""
    import leanrnn
    from leanrnn.deploy import RUNTIMES, File, free_lengths, metadata_of

    known = {"batch": given.batch, "time": given.steps}
    sizes = {name: known.get(name, given.steps) for name in free_lengths(metadata_of(path))}
    files = {32: path}
    if any(RUNTIMES[name].bits == 8 for name in names):
        folder.mkdir(exist_ok=True)
        files[8] = leanrnn.quantize(path, folder / f"model.int8{path.suffix}").path
    return {name: File(files[RUNTIMES[name].bits], name, sizes) for name in names}


def _facts(given: Given, model: Any, example: Any) -> dict[str, Any]:
    from leanrnn.cost import mult_adds

    count = mult_adds(model.eval(), example)
    facts = {"model": str(given.source), "weights": sum(p.numel() for p in model.parameters()), "mult_adds": count}
    return facts if given.factory else facts | {"mult_adds_a_word": count // (given.batch * given.steps)}


def _main(source: str, threads: str, factory: str, example: str, batch: str, steps: str) -> None:
    """Memory of a process that only runs the model with PyTorch."""
    from leanrnn.deploy import model_call, print_peak

    given = Given(Path(source), factory or None, example or None, int(batch), int(steps))
    print_peak(model_call(*given.model(), int(threads)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
