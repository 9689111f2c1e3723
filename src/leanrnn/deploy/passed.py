"""Checks of an input that do nothing but raise an error: the example has passed them, and a file has none."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Iterator

__all__ = ["passed"]


def passed() -> bool | None:
    """What a tensor has to be, asked for in an ``assert``, or in an ``if`` that only raises, for the model to go on;
    None if it is asked for elsewhere. To be called by what torch asks in its place."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return _goal(frame.f_code.co_filename, frame.f_lineno)


@functools.lru_cache(1000)
def _goal(file: str, line: int) -> bool | None:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    for part in ast.walk(tree):
        if isinstance(part, ast.Assert | ast.If) and part.lineno <= line <= (part.test.end_lineno or part.lineno):
            raises = isinstance(part, ast.Assert) or (isinstance(part.body[-1], ast.Raise) and not part.orelse)
            goals = set(_parts(part.test, isinstance(part, ast.Assert)))
            return goals.pop() if raises and len(goals) == 1 else None
    return None


def _parts(test: ast.expr, goal: bool) -> Iterator[bool]:
    """What the parts of a condition have to be for the whole to be ``goal``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not goal)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _parts(part, goal)
    else:
        yield goal
