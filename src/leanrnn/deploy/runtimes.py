"""What runs models: a table.

No torch is loaded here before a runtime asks for it, so that a fresh process shows what another needs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leanrnn.deploy.files import Arrays, inputs_for
from leanrnn.deploy.formats import metadata_of, runner_of
from leanrnn.deploy.libraries import ONNX, OPENVINO, Extra, in_short
from leanrnn.deploy.timing import peak_of_fresh_process
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["RUNTIMES", "File", "Runtime", "model_call", "session"]

Call: TypeAlias = Callable[[], Any]
"""One call of a model; of a file it returns the outputs in order."""


@dataclass(frozen=True)
class Runtime:
    """Something that runs models."""

    reads: str
    """What the files it opens end in: a key of ``FORMATS``."""
    extra: Extra | None
    """That brings it."""
    open: Callable[[Path, Arrays, int | None], Call]
    """A file, inputs and a number of threads (None: as many as it likes) become a call."""
    bits: int = 32
    """Of the weights in files that are made for it."""
    in_process: bool = False
    """Whether it runs a model as it is, without a file."""
    unasked: bool = True
    """Whether a model is written for it that nobody asked for: a large one takes a compiler minutes."""


def session(path: Path, threads: int | None = None) -> Any:
    """The file, ready to run in onnxruntime: ``session(path).run(None, inputs)``."""
    onnxruntime = ONNX.package("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised, and told once
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _onnxruntime(path: Path, inputs: Arrays, threads: int | None) -> Call:
    ready = session(path, threads)
    return lambda: ready.run(None, inputs)


def _openvino(path: Path, inputs: Arrays, threads: int | None) -> Call:
    openvino = OPENVINO.package("openvino")
    # Else it computes in bfloat16 where a processor can, and is compared with numbers of single precision.
    exact: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
    if threads is not None:
        exact["INFERENCE_NUM_THREADS"] = threads
    try:
        compiled = openvino.Core().compile_model(str(path), "CPU", exact)
    except RuntimeError as error:
        raise ExportError(f"OpenVINO cannot read {path}: {in_short(error)}. Take onnxruntime.") from error
    return lambda: list(compiled(inputs).values())


def _torch(path: Path, inputs: Arrays, threads: int | None) -> Call:
    import torch

    run, tensors = runner_of(path), [torch.from_numpy(each) for each in inputs.values()]
    return _with_threads(lambda: [each.numpy() for each in run(tensors)], threads)


def _c(path: Path, inputs: Arrays, threads: int | None) -> Call:
    from leanrnn.deploy.formats.c import library

    run = library(path)
    return lambda: run(list(inputs.values()))


def _with_threads(call: Call, threads: int | None) -> Call:
    """Torch has one number of threads for all models: every call sets its own."""
    import torch

    def once() -> Any:
        if threads is not None:
            torch.set_num_threads(threads)
        return call()

    return once


RUNTIMES = {
    "torch": Runtime(".pt2", None, _torch, in_process=True),
    "onnxruntime": Runtime(".onnx", ONNX, _onnxruntime),
    "int8": Runtime(".onnx", ONNX, _onnxruntime, bits=8),
    "c": Runtime(".c", None, _c, unasked=False),
    "openvino": Runtime(".onnx", OPENVINO, _openvino),
}
"""By the name on the command line; ``int8`` is onnxruntime with a file in eight bits."""


@dataclass(frozen=True)
class File:
    """An exported file in a runtime, with lengths for what goes in. ::

    File(Path("small.onnx"), "onnxruntime", {"batch": 10, "time": 30}).caller(threads=1)()
    """

    path: Path
    runtime: str
    sizes: Mapping[str, int]

    def caller(self, threads: int) -> Call:
        """A call with random inputs, the same for every runtime."""
        inputs = inputs_for(metadata_of(self.path), self.sizes)
        return RUNTIMES[self.runtime].open(self.path, inputs, threads)

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    def peak_bytes(self, threads: int) -> int:
        """The largest memory of a process that does nothing but load the file and run it a few times."""
        words = [f"{name}={size}" for name, size in self.sizes.items()]
        return peak_of_fresh_process("leanrnn.deploy.peak", self.runtime, str(self.path), str(threads), *words)


def model_call(model: nn.Module, example: Any, threads: int) -> Call:
    """A call of a model as it is, in PyTorch."""
    import torch

    from leanrnn.running import call

    def once() -> Any:
        with torch.inference_mode():
            return call(model, example)

    model.eval()
    return _with_threads(once, threads)
