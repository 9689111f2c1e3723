"""What a user may name on the command line as a model, and the files made of it to measure or to keep."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leanrnn.cli.factory import build
from leanrnn.errors import ConfigError

if TYPE_CHECKING:
    import torch

__all__ = ["Artefacts", "Given", "Source", "artefacts"]

Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|FILE")]
RUNTIMES = ("torch", "onnxruntime", "int8", "openvino")


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


@dataclass
class Artefacts:
    """A model and the files made of it."""

    given: Given
    facts: dict[str, Any]
    files: dict[str, Path]
    """By runtime."""
    sizes: dict[str, int]
    """Lengths of what goes in."""
    torch: tuple[Any, Any] | None = None
    """Model and example, if there is one."""
    inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Those there is a file for."""
        return tuple(self.files)

    def caller(self, runtime: str, threads: int) -> Callable[[], object]:
        """One call of the model."""
        from leanrnn.deploy import caller

        if runtime != "torch":
            name = "onnxruntime" if runtime == "int8" else runtime
            return caller(name, self.files[runtime], self.inputs, threads)
        assert self.torch is not None
        return _torch_call(*self.torch, threads)

    def bytes_of(self, runtime: str) -> int:
        """Size of the file."""
        return self.files[runtime].stat().st_size

    def peak_bytes(self, runtime: str, threads: int) -> int:
        """The most memory a fresh process needs that only runs it."""
        from leanrnn.deploy import peak_of_fresh_process

        if runtime != "torch":
            name = "onnxruntime" if runtime == "int8" else runtime
            return peak_of_fresh_process(name, self.files[runtime], threads, self.sizes)
        given = self.given
        words = [str(given.source), given.factory or "", given.example or "", str(given.batch), str(given.steps)]
        command = [sys.executable, "-m", "leanrnn.cli.artefacts", str(threads), *words]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def artefacts(given: Given, folder: Path, wanted: tuple[str, ...] = ()) -> Artefacts:
    """Whatever can be measured of a model: exported into ``folder`` for the runtimes that are wanted, or installed."""
    import leanrnn
    from leanrnn.deploy import inputs_for, installed, said
    from leanrnn.lab.runs import model_file

    if unknown := set(wanted) - set(RUNTIMES):
        raise ConfigError(f"there is no runtime {unknown.pop()!r}. Choose of {', '.join(RUNTIMES)}.")
    here = {"torch": True, "onnxruntime": installed("onnxruntime"), "openvino": installed("openvino")}
    here |= {"int8": here["onnxruntime"], "openvino": here["openvino"] and here["onnxruntime"]}
    names = [name for name in RUNTIMES if (name in wanted if wanted else here[name])]
    sizes = {"batch": given.batch, "time": given.steps}
    files: dict[str, Path] = {}
    if given.source.suffix == ".onnx":
        exported, pair = given.source, None
        facts = {"model": str(given.source), "widths": said(exported)["widths"]}
        names = [name for name in names if name != "torch"]
    else:
        pair = given.model()
        facts, exported = _facts(given, *pair), folder / "model.onnx"
        if names != ["torch"]:
            folder.mkdir()
            leanrnn.export(*pair, exported)
    for name in names:
        files[name] = model_file(given.source) if name == "torch" else exported
    if "int8" in files:
        folder.mkdir(exist_ok=True)
        files["int8"] = leanrnn.quantize(exported, folder / "model.int8.onnx").path
    found = Artefacts(given, facts, files, sizes, pair)
    if names != ["torch"]:
        about = said(exported)
        free = {size for shape in about["inputs"].values() for size in shape if isinstance(size, str)}
        found.sizes = {name: sizes.get(name, given.steps) for name in free}
        found.inputs = inputs_for(about, found.sizes)
    return found


def _facts(given: Given, model: Any, example: Any) -> dict[str, Any]:
    from leanrnn.cost import mult_adds

    count = mult_adds(model.eval(), example)
    facts = {"model": str(given.source), "weights": sum(p.numel() for p in model.parameters()), "mult_adds": count}
    return facts if given.factory else facts | {"mult_adds_a_word": count // (given.batch * given.steps)}


def _torch_call(model: Any, example: Any, threads: int) -> Callable[[], object]:
    import torch

    from leanrnn.running import call

    def once() -> object:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return call(model, example)

    model.eval()
    return once


def _main(threads: str, source: str, factory: str, example: str, batch: str, steps: str) -> None:
    """Memory of a process that only runs the model with PyTorch."""
    from leanrnn.deploy import WARM_UP
    from leanrnn.environment import peak_bytes

    given = Given(Path(source), factory or None, example or None, int(batch), int(steps))
    once = _torch_call(*given.model(), int(threads))
    for _ in range(WARM_UP):
        once()
    print(peak_bytes())


if __name__ == "__main__":
    _main(*sys.argv[1:])
