"""A file of C99: one step a call, states in a struct, no allocation and no library but the language's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leanrnn.deploy.files import KEY
from leanrnn.deploy.formats.base import Format, Options, Runner, Written
from leanrnn.deploy.formats.c.build import Library, compiler
from leanrnn.deploy.formats.c.int8 import in_bytes
from leanrnn.deploy.formats.c.source import Source, stem
from leanrnn.errors import ExportError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leanrnn.deploy.program import Program

__all__ = ["C", "library"]


class C(Format):
    """For whatever has a C compiler."""

    suffix, title, runtime = ".c", "file of C", "c"

    def check(self, options: Options) -> None:
        """The compiler, which the file is checked with."""
        compiler()

    def trace(self, model: nn.Module, example: Any, held: frozenset[tuple[int, int]]) -> Program:
        """As for ONNX; every length but those of batch and time is held."""
        from leanrnn.deploy.formats.c.streams import traced

        return traced(model, example, held)

    def write(self, program: Program, metadata: Mapping[str, Any], path: Path, options: Options) -> Written:
        """The file and its header."""
        from leanrnn.deploy.formats.c.rules import Lowering

        names = tuple(options.outputs or program.outputs)
        source = Lowering(program, metadata["states"], names, stem(path)).source()
        _write(source, metadata, path)
        return Written(names, source.body.count("/* "), (source.told(),))

    def runner(self, path: Path) -> Runner:
        """Compiled, and loaded into this process."""
        import torch

        run = library(path)

        def called(tensors: Sequence[Tensor]) -> list[Tensor]:
            return [torch.from_numpy(each) for each in run([t.detach().cpu().contiguous().numpy() for t in tensors])]

        return called

    def quantize(self, source: Path, target: Path, *, reduce_range: bool | None, weights_only: bool) -> None:
        """With a byte for each weight; there is one way, in which sums have room on every processor."""
        if weights_only:
            raise ExportError(
                f"{source} is a file of C, which multiplies bytes with numbers of 16 bits: nearly as exact as weights "
                "in bytes alone. Leave weights_only out."
            )
        metadata = self.metadata(source)
        found = Source.read(source.read_text(), metadata)
        if not found.matrices and not found.tables:
            raise ExportError(f"{source} has no weights in single precision to write in eight bits. Keep it as it is.")
        _write(in_bytes(found), metadata, target)

    def move(self, part: Path, target: Path) -> None:
        """The header beside it."""
        part.with_suffix(".h").replace(target.with_suffix(".h"))
        part.replace(target)

    def stored(self, path: Path) -> str:
        """The last comment."""
        _, found, rest = path.read_text().rpartition(f"/* {KEY}: ")
        if not found:
            raise KeyError(KEY)
        return rest.rpartition(" */")[0].replace("*\\/", "*/")


def _write(source: Source, metadata: Mapping[str, Any], path: Path) -> None:
    """The file and its header."""
    header = path.with_suffix(".h")
    path.write_text(source.text(metadata, header.name))
    header.write_text(source.header())


def library(path: Path) -> Library:
    """A file that was written, compiled."""
    metadata = C().metadata(path)
    return Library(path, Source.read(path.read_text(), metadata), list(metadata["inputs"]), metadata["states"])
