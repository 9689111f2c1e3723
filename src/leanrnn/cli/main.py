"""The command line: parses, calls, prints. PyTorch is loaded inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from leanrnn import __version__
from leanrnn.cli.commands import command, overview
from leanrnn.cli.parsing import parsed
from leanrnn.cli.printing import notes_for_warnings, only_json
from leanrnn.cli.train import parse_train
from leanrnn.errors import LeanRNNError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 2 for a mistake in the input, 130 if it was interrupted.

    >>> main(["env"])
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"leanrnn {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0 if arguments else 2
    traceback = "--traceback" in arguments
    try:
        given = _parse(*(argument for argument in arguments if argument != "--traceback"))
        with notes_for_warnings(), only_json() if getattr(given, "json", False) else nullcontext():
            code = given.run() or 0
        sys.stdout.flush()  # here, where it can be told that nobody reads
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who read the output has gone, as head does; the interpreter would flush it once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if traceback:
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


def _parse(name: str, *arguments: str) -> Any:
    chosen = command(name)
    if name == "train":
        return parse_train(arguments, chosen.about(name))
    return parsed(chosen.kind, name, chosen.about(name), arguments)


def _mistake(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2
