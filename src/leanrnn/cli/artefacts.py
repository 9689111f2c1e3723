"""What a user may name on the command line as a model, and the files made of it to measure or to keep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import tyro

from leanrnn.cli.factory import build
from leanrnn.errors import ConfigError, LeanRNNError

if TYPE_CHECKING:
    import torch

    from leanrnn.deploy import Runtime

__all__ = ["Artefacts", "Given", "Source", "artefacts", "trained", "why"]

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
        from leanrnn.lab.task import task_of

        path = trained(self.source)
        if self.factory is not None:
            dense, example = build(self.factory, self.example)
            return leanrnn.load(path, lambda: dense), example
        about = leanrnn.about(path)
        task = task_of(about)
        return task.load(path), task.inputs(about, self.batch, self.steps)


def trained(source: Path) -> Path:
    """The file of a model that PyTorch can load; an exported one cannot be. ::

    trained(Path("runs/text"))  # runs/text/model.safetensors
    """
    from leanrnn.deploy import format_of
    from leanrnn.lab.runs import model_file

    form = format_of(source)
    if form is not None and source.is_file():
        raise ConfigError(
            f"{source} is an exported {form.title}, which only runs. Give the run, or the file, it was made from."
        )
    return model_file(source)


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
    """What is known of a model, the model in every runtime it is measured in, and why it is not in others."""

    facts: dict[str, Any]
    runtimes: dict[str, Measurable]
    not_run: dict[str, str]


def artefacts(given: Given, folder: Path, wanted: tuple[str, ...] = ()) -> Artefacts:
    """Whatever can be measured of a model: exported into ``folder`` for the runtimes that are wanted, or all of them.
    What fails in one of them says nothing of the others."""
    from leanrnn.deploy import RUNTIMES, format_of

    if unknown := set(wanted) - set(RUNTIMES):
        raise ConfigError(f"there is no runtime {unknown.pop()!r}. Choose of {', '.join(RUNTIMES)}.")
    form = format_of(given.source)
    names = [
        name for name in RUNTIMES if name in wanted or (not wanted and (form is not None or RUNTIMES[name].unasked))
    ]
    if form is not None:
        readers = [name for name, runtime in RUNTIMES.items() if name == form.runtime or runtime.reads == form.suffix]
        names = [name for name in names if name in readers]
        if not names:
            raise ConfigError(f"none of {', '.join(wanted)} reads {form.suffix}. Choose of {', '.join(readers)}.")
    missing = {name: _missing(RUNTIMES[name]) for name in names}
    not_run = {name: reason for name, reason in missing.items() if reason}
    names = [name for name in names if name not in not_run]
    make = _of_model if form is None else _of_exported
    return make(given, folder, names, not_run)


def why(error: Exception) -> str:
    """What is wrong, in one line. ::

    not_run["onnxruntime"] = why(error)
    """
    text = " ".join(str(error).split())
    return text if isinstance(error, LeanRNNError) else f"{type(error).__name__}: {text[:300]}"


def _missing(runtime: Runtime) -> str:
    return "" if runtime.extra is None else runtime.extra.missing


def _of_exported(given: Given, folder: Path, names: list[str], not_run: dict[str, str]) -> Artefacts:
    from leanrnn.deploy import metadata_of

    metadata = metadata_of(given.source)
    facts = {"model": str(given.source), "weights": metadata["weights"], "widths": metadata["widths"]}
    return Artefacts(facts, _of_file(given, given.source, folder, names, not_run), not_run)


def _of_model(given: Given, folder: Path, names: list[str], not_run: dict[str, str]) -> Artefacts:
    """As it is where a runtime takes it, and exported in the formats that the others read."""
    import leanrnn
    from leanrnn.deploy import RUNTIMES
    from leanrnn.lab.runs import model_file

    model, example = given.model()
    facts, found = _facts(given, model, example), dict[str, Measurable]()
    for suffix in dict.fromkeys(RUNTIMES[name].reads for name in names if not RUNTIMES[name].in_process):
        folder.mkdir(exist_ok=True)
        readers = [name for name in names if RUNTIMES[name].reads == suffix]
        try:
            written = leanrnn.export(model, example, folder / f"model{suffix}")
        except Exception as error:  # whatever it is, the other runtimes are measured
            not_run |= dict.fromkeys(readers, why(error))
            continue
        sizes = _sizes(example, written.inputs) if given.factory else None
        found |= _of_file(given, written.path, folder, readers, not_run, sizes)
    loaded = Loaded(given, model_file(given.source), model, example)
    found |= {name: loaded for name in names if RUNTIMES[name].in_process}
    return Artefacts(facts, {name: found[name] for name in names if name in found}, not_run)


def _sizes(example: Any, inputs: Mapping[str, Sequence[str | int]]) -> dict[str, int]:
    """The lengths that may be anything as they are in the user's example, which PyTorch is timed with too."""
    from leanrnn.running import leaves

    axes = zip(leaves(example), inputs.values(), strict=False)
    return {name: t.size(i) for t, shape in axes for i, name in enumerate(shape) if isinstance(name, str)}


def _of_file(
    given: Given, path: Path, folder: Path, names: list[str], not_run: dict[str, str],
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Measurable]:  # fmt: skip
    """An exported file in the runtimes that read it, for some of them with weights of eight bits."""
    import leanrnn
    from leanrnn.deploy import RUNTIMES, File, free_lengths, metadata_of

    known = sizes or {"batch": given.batch, "time": given.steps}
    sizes = {name: known.get(name, given.steps) for name in free_lengths(metadata_of(path))}
    files = {32: path}
    if small := [name for name in names if RUNTIMES[name].bits == 8]:
        folder.mkdir(exist_ok=True)
        try:
            files[8] = leanrnn.quantize(path, folder / f"model.int8{path.suffix}", seconds=0).path
        except Exception as error:
            not_run |= dict.fromkeys(small, why(error))
    bits = {name: RUNTIMES[name].bits for name in names}
    return {name: File(files[bits[name]], name, sizes) for name in names if bits[name] in files}


def _facts(given: Given, model: Any, example: Any) -> dict[str, Any]:
    from leanrnn.cost import mult_adds
    from leanrnn.groups import count_weights

    count = mult_adds(model.eval(), example)
    facts = {"model": str(given.source), "weights": count_weights(model), "mult_adds": count}
    return facts if given.factory else facts | {"mult_adds_a_word": count // (given.batch * given.steps)}


def _main(source: str, threads: str, factory: str, example: str, batch: str, steps: str) -> None:
    """Memory of a process that only runs the model with PyTorch."""
    from leanrnn.deploy import model_call, print_peak

    given = Given(Path(source), factory or None, example or None, int(batch), int(steps))
    print_peak(model_call(*given.model(), int(threads)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
