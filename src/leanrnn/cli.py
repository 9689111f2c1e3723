"""The command line: parses, calls, prints. PyTorch is loaded inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tyro

from leanrnn import __version__
from leanrnn.errors import LeanRNNError
from leanrnn.factory import build, where_raised

__all__ = ["main"]

ABOUT = """Find the intrinsic sparse structures of a recurrent model, train them to zero, cut them out.

`leanrnn COMMAND --help` explains a command, `leanrnn --version` prints the version."""


@dataclass(frozen=True)
class Demo:
    """Train a small language model dense and lean, shrink it, compare. No download, about two minutes."""

    out: Path = Path("leanrnn-demo")
    """Folder for the two trained models."""
    epochs: int = 4
    """Passes over the text for the dense model; the lean one makes twice as many, in less time."""
    threads: int = 1
    """Threads PyTorch may use; more help only if nothing else runs."""

    def run(self) -> None:
        from leanrnn import demo

        demo.run(self.out, count=self.epochs, threads=self.threads)


@dataclass(frozen=True)
class Discover:
    """Print the groups of your own model."""

    factory: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODULE:FUNCTION")]
    """Function that returns (model, example): package.module:function or path/to/file.py:function."""
    scope: Literal["recurrent", "all"] = "recurrent"
    """Which widths to offer: recurrent ones, or embedding and MLP widths too."""
    explain: str | None = None
    """Name of a layer, or of a pinned width, whose chain of operators to print."""
    json: Path | None = None
    """File to write the groups to, as JSON."""
    traceback: bool = False
    """Show the whole traceback if your own code raises."""

    def run(self) -> None:
        from leanrnn import discover

        model, example = build(self.factory)
        groups = discover(model, example, scope=self.scope)
        print(groups.explain(self.explain) if self.explain else groups)
        if self.json is not None:
            self.json.write_text(groups.to_json(), encoding="utf-8")


@dataclass(frozen=True)
class Env:
    """Print versions, threads and the processor, for a bug report."""

    def run(self) -> None:
        for name, value in environment().items():
            print(f"{name:<12} {value}")


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Discover, tyro.conf.subcommand("discover")]
    | Annotated[Env, tyro.conf.subcommand("env")]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, or 2 for a mistake in the input.

    >>> main(["env"])
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"leanrnn {__version__}")
        return 0
    command = tyro.cli(
        cast(Any, Command), prog="leanrnn", description=ABOUT, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
    )
    try:
        command.run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        place = where_raised(error)
        if getattr(command, "traceback", False):
            raise
        if isinstance(error, LeanRNNError) or (isinstance(error, OSError) and not place):
            return _mistake(str(error))
        if place:
            return _mistake(f"{type(error).__name__}: {error} (raised at {place}; --traceback shows the way there)")
        raise
    return 0


def environment() -> dict[str, str]:
    """What a bug report should say about the machine, by name."""
    import torch

    packages = ("numpy", "scipy", "safetensors", "tyro", "rich")
    return {
        "leanrnn": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "torch": torch.__version__,
        **{name: _version(name) for name in packages},
        "processor": f"{_processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "threads": f"{torch.get_num_threads()} (between operators: {torch.get_num_interop_threads()})",
        "oneDNN": "yes" if torch._C._has_mkldnn else "no",
        "accelerator": ", ".join(_accelerators()) or "none",
    }


def _accelerators() -> list[str]:
    import torch

    found = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [*found, "mps"] if torch.backends.mps.is_available() else found


def _processor() -> str:
    info = Path("/proc/cpuinfo")  # platform.processor() says nothing on most Linux systems
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _mistake(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
