"""Options of a command: what they are called in its help, and how they are read."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import tyro

__all__ = ["MaybeFloat", "MaybeInt", "MaybePath", "MaybeText", "Numbers", "Words", "hint", "parsed"]


def hint(default: str) -> str:
    """What stands behind an option in the help: its default, if that says anything."""
    return f"(default: {default})" if default else ""


# Options that may be left out, without "{None}|" and "(default: None)" in the help.
MaybeFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
MaybeInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
MaybePath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
Numbers = Annotated[tuple[int, ...], tyro.conf.arg(help_behavior_hint=hint)]
Words = Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint=hint)]
MaybeText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class _Help(io.StringIO):
    """Takes a help text as it would be where it goes to: in colours or not, with lines of boxes or of dashes."""

    encoding = property(lambda self: getattr(sys.__stdout__, "encoding", None))

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def parsed(kind: Any, name: str, about: str, arguments: Sequence[str], default: Any = tyro.MISSING_NONPROP) -> Any:
    """The command that the arguments make of ``kind``; asked for help, it is printed within 80 columns. ::

    parsed(Measure, "measure", "...", ["runs/text"]).run()
    """
    told = _Help()
    try:
        with redirect_stdout(told):
            return tyro.cli(
                kind, prog=f"leanrnn {name}", description=about, args=arguments, default=default,
                config=(tyro.conf.FlagCreatePairsOff,),
            )  # fmt: skip
    finally:
        usage, newline, rest = told.getvalue().partition("\n")
        if len(plain := COLOURS.sub("", usage)) > 80:
            usage = fill(plain, 80, subsequent_indent=" " * len(f"usage: leanrnn {name} "), break_on_hyphens=False)
        sys.stdout.write(usage + newline + rest)
