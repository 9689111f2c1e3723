"""What leanrnn has to know of a kind of file to write it, to check it and to run it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leanrnn.deploy.libraries import Extra
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leanrnn.deploy.program import Program

__all__ = ["Format", "Options", "Runner", "Written"]

Runner: TypeAlias = "Callable[[Sequence[Tensor]], list[Tensor]]"
"""A file that was read back: the tensors of an example go in, in order, and its outputs come out."""


@dataclass(frozen=True)
class Options:
    """What the user of :func:`leanrnn.export` may choose; a format takes what it knows."""

    outputs: Sequence[str] | None = None
    opset: int = 20


@dataclass(frozen=True)
class Written:
    """A file as it was written."""

    outputs: tuple[str, ...]
    """Their names."""
    nodes: int
    """Of its graph."""
    notes: tuple[str, ...] = ()
    """What else has to be known to use it."""


class Format(ABC):
    """A kind of file. A module that has a subclass of this, and a line in ``FORMATS``, are all that a new one takes.

    Nothing here may load torch or a package of an extra before a method is called: ``leanrnn.deploy`` is imported by
    processes that show how much memory a runtime needs without them.
    """

    suffix: str
    """That its files end in."""
    title: str
    """What a message calls one, such as "ONNX file"."""
    runtime: str
    """The name in ``RUNTIMES`` of what reads a file back to check it."""
    extra: Extra | None = None
    """That brings the packages it needs."""
    note: str = ""
    """What a user should know who has written one, such as that it does not take any number of steps."""

    def check(self, options: Options) -> None:  # noqa: B027  (most formats take any)
        """Refuse options that make no sense, before anything is traced."""

    @abstractmethod
    def trace(self, model: nn.Module, example: Any, held: frozenset[tuple[int, int]]) -> Program:
        """The model as a graph; ``Program.inputs`` says which of its lengths may vary. Those ``held``, by the number of
        an input and the axis, need not."""

    @abstractmethod
    def write(self, program: Program, metadata: Mapping[str, Any], path: Path, options: Options) -> Written:
        """Write the graph, and the metadata in the same file."""

    @abstractmethod
    def runner(self, path: Path) -> Runner:
        """Read a file back, ready to run."""

    def move(self, part: Path, target: Path) -> None:
        """Put a file that is right in its place, with what belongs to it."""
        part.replace(target)

    @abstractmethod
    def stored(self, path: Path) -> str:
        """The metadata as it stands in a file; a KeyError if there is none."""

    def quantize(self, source: Path, target: Path, *, reduce_range: bool | None, weights_only: bool) -> None:
        """Write ``source`` in eight bits."""
        raise ExportError(
            f"{source} is a {self.title}, which leanrnn does not write in eight bits. Export to .onnx, and "
            "quantise that file."
        )

    def float_nodes(self, path: Path) -> tuple[str, ...]:
        """Names of recurrent nodes that compute in single precision."""
        return ()

    def metadata(self, path: Path) -> dict[str, Any]:
        """What a file says of itself."""
        if path.is_dir():
            raise ExportError(f"{path} is a folder. Give the file that leanrnn.export has written.")
        if not path.is_file():
            raise ExportError(f"there is no file {path}. Write one with leanrnn.export(model, example, path).")
        try:
            return dict(json.loads(self.stored(path)))
        except ExportError:
            raise
        except (KeyError, ValueError) as error:
            raise ExportError(f"{path} was not written by leanrnn. Write one with leanrnn.export.") from error
        except Exception as error:  # of a library, which may have it from anywhere
            raise ExportError(f"{path} is damaged or no {self.title} ({error}). Write it again.") from error
