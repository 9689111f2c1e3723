"""``leanrnn export`` and ``quantize``: what comes after training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from leanrnn.cli.artefacts import Given, Source, trained
from leanrnn.cli.parsing import MaybePath, MaybeText
from leanrnn.cli.printing import print_json, print_table
from leanrnn.environment import check_target
from leanrnn.errors import ConfigError

__all__ = ["Export", "Quantize"]


@dataclass(frozen=True)
class Export:
    """Write a model as ONNX, for onnxruntime, OpenVINO and others, as a program of torch, or as a file of C. The file
    is run and compared with the model first; if they differ, none is written."""

    source: Source
    """A run folder, or a file that leanrnn has written."""
    out: Path
    """The file to write: .onnx, for any number of steps, .pt2, for one number of them, or .c, for one frame a call."""
    steps: int = 5
    """Steps of a .pt2 file of a language model."""
    opset: int = 20
    """Version of ONNX's operators."""
    factory: MaybeText = None
    """For a file of your own model: MODULE:FUNCTION that returns the dense model and an example."""
    example: MaybeText = None
    """Inputs, if that function returns a model alone, such as "1,35:int64"."""
    json: bool = False
    """Print what was written as JSON."""

    def run(self) -> None:
        """Export and check. A language model takes its state as an input and gives it back, to be fed in pieces."""
        import leanrnn
        from leanrnn.deploy import FORMATS
        from leanrnn.lab.task import task_of

        if self.steps < 1:
            raise ConfigError(f"steps is {self.steps}. Give at least 1.")
        path = trained(self.source)
        check_target(self.out, ConfigError)
        if self.factory is None:
            written = task_of(leanrnn.about(path)).export(path, self.out, steps=self.steps, opset=self.opset)
        else:
            model, example = Given(self.source, self.factory, self.example).model()
            written = leanrnn.export(model, example, self.out, about=leanrnn.about(path), opset=self.opset)
        if self.json:
            print_json(asdict(written) | {"path": str(written.path)})
            return
        inputs = ((name, " x ".join(map(str, shape))) for name, shape in written.inputs.items())
        print_table([("input", "axes"), *inputs])
        print(f"outputs: {', '.join(written.outputs)}")
        if written.states:
            print(f"states to feed on: {', '.join(f'{out} as {name}' for name, out in written.states.items())}")
        if written.fixed:
            print(f"fixed, as in the example: {', '.join(f'{name} {size}' for name, size in written.fixed.items())}")
        print(f"{self.out} has {written.nodes} nodes and differs by {written.difference:.1e} at lengths never traced.")
        for note in filter(None, (*written.notes, FORMATS[self.out.suffix].note)):
            print(note)


@dataclass(frozen=True)
class Quantize:
    """Write an exported file with weights of eight bits."""

    source: Source
    """A file that leanrnn export has written."""
    out: MaybePath = None
    """The file to write; NAME.int8.onnx if not given."""
    weights_only: bool = False
    """Compute in single precision: not faster, but nearly exact, and OpenVINO reads it."""
    data: MaybePath = None
    """Data that the model was trained with, to compare perplexity (or F1) of both files."""
    seconds: float = 1.0
    """Time to spend on timing both files; 0 leaves times out."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> None:
        """Quantise and compare."""
        import leanrnn
        from leanrnn.deploy import metadata_of
        from leanrnn.lab.task import task_of

        if self.seconds < 0:
            raise ConfigError(f"seconds is {self.seconds:g}. Give at least 0.")
        self._check_exported()
        name, evaluate = "", None
        if self.data is not None:
            name, evaluate = task_of(metadata_of(self.source)["about"]).evaluator(self.source, self.data)
        found = leanrnn.quantize(
            self.source, self.out, weights_only=self.weights_only, evaluate=evaluate, seconds=self.seconds
        )
        if self.json:
            print_json(asdict(found) | {"path": str(found.path)})
            return
        print(f"{found.path}: {found.bytes_before / 1e6:.2f} MB became {found.bytes_after / 1e6:.2f} MB.")
        print(f"Outputs change by {found.difference:.1%} (root mean square, on random inputs).")
        if found.before is not None:
            print(f"{name} {found.before:.2f} became {found.after:.2f}.")
        for speed in found.speed:
            print(speed)
        if found.float_nodes:
            print(f"In single precision, though bytes in the file: {', '.join(found.float_nodes)}.")

    def _check_exported(self) -> None:
        """A run, or a model that is not exported yet, is the commonest mistake."""
        from leanrnn.deploy import format_of

        if self.out is not None and self.out.exists() and self.source.exists() and self.out.samefile(self.source):
            raise ConfigError(f"{self.out} is the file to quantise itself. Name another one, or none.")
        if format_of(self.source) is None and (self.source.is_dir() or self.source.suffix == ".safetensors"):
            onnx = f"{self.source.stem}.onnx"
            raise ConfigError(
                f"{self.source} is no exported file. Export it first, leanrnn export {self.source} --out {onnx}, and "
                f"then: leanrnn quantize {onnx}."
            )
