"""Which line of the user's own code an exception came from."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

import torch

__all__ = ["place_in_trace", "running_place", "user_line", "user_place"]

_LIBRARIES = (Path(__file__).parents[1], Path(torch.__file__).parent)
_STANDARD = Path(sysconfig.get_paths()["stdlib"])


def user_line(error: BaseException) -> str:
    """``file:line`` of the innermost frame that is neither torch's nor ours, or "an unknown line"."""
    place = user_place(error)
    return place.partition(", in ")[0] if place else "an unknown line"


def user_place(error: BaseException) -> str | None:
    """File, line and function of the user's code that raised ``error``; ``None`` if none of it was running."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    return _innermost(traceback.extract_tb(error.__traceback__))


def running_place() -> str | None:
    """The same of the user's code that is running now."""
    return _innermost(traceback.extract_stack())


def _innermost(stack: traceback.StackSummary) -> str | None:
    for frame in reversed(stack):
        path = Path(frame.filename)
        if path.exists() and not _is_library(path):
            return f"{frame.filename}:{frame.lineno}, in {frame.name}"
    return None


def place_in_trace(trace: str) -> str | None:
    """The same in a traceback that is text, such as a node of a traced graph has; ``None`` if it has no user's line."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', trace)
    own = [frame for frame in frames if not _is_library(Path(frame[0]))]
    return "{}:{}, in {}".format(*own[-1]) if own else None


def _is_library(path: Path) -> bool:
    standard = path.is_relative_to(_STANDARD) and "site-packages" not in path.parts
    return standard or any(path.is_relative_to(folder) for folder in _LIBRARIES)
