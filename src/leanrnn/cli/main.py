"""The command line: parses, calls, prints. PyTorch is loaded inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any, cast

import tyro

from leanrnn import __version__
from leanrnn.cli.answer import Ask
from leanrnn.cli.demo import Demo
from leanrnn.cli.discover import Discover
from leanrnn.cli.listing import Env, Ls
from leanrnn.cli.measure import Measure
from leanrnn.cli.models import Export, Quantize, Shrink
from leanrnn.cli.printing import only_json
from leanrnn.cli.report import Report
from leanrnn.cli.train import Train, parse_train
from leanrnn.errors import LeanRNNError
from leanrnn.lab import Config

__all__ = ["main"]

ABOUT = """Find the intrinsic sparse structures of a recurrent model, train them to zero, cut them out.

`leanrnn COMMAND --help` explains a command, `leanrnn --version` prints the version."""

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Discover, tyro.conf.subcommand("discover")]
    | Annotated[Train[Config], tyro.conf.subcommand("train")]
    | Annotated[Shrink, tyro.conf.subcommand("shrink")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Quantize, tyro.conf.subcommand("quantize")]
    | Annotated[Ask, tyro.conf.subcommand("answer")]
    | Annotated[Measure, tyro.conf.subcommand("measure")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Ls, tyro.conf.subcommand("ls")]
    | Annotated[Env, tyro.conf.subcommand("env")]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 2 for a mistake in the input, 130 if it was interrupted.

    >>> main(["env"])
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"leanrnn {__version__}")
        return 0
    command: Any = None
    try:
        command = _parse(arguments)
        with only_json() if getattr(command, "json", False) else nullcontext():
            return command.run() or 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if getattr(command, "traceback", False):
            raise
        if isinstance(error, LeanRNNError):
            return _mistake(str(error))
        from leanrnn.running import user_place  # loads torch

        place = user_place(error)
        if isinstance(error, OSError) and not place:
            return _mistake(str(error))
        if place:
            return _mistake(f"{type(error).__name__}: {error} (raised at {place}; --traceback shows the way there)")
        raise


def _parse(arguments: list[str]) -> Any:
    if arguments[:1] == ["train"]:
        return parse_train(arguments[1:])
    return tyro.cli(
        cast(Any, Command), prog="leanrnn", description=ABOUT, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
    )


def _mistake(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2
