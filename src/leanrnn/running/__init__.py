"""Running somebody's model without leaving a trace."""

from leanrnn.running.call import call, leaves
from leanrnn.running.compare import difference, run, tolerance
from leanrnn.running.copies import copy_example, copy_model
from leanrnn.running.quiet import quiet
from leanrnn.running.user_line import user_line, user_place

__all__ = [
    "call",
    "copy_example",
    "copy_model",
    "difference",
    "leaves",
    "quiet",
    "run",
    "tolerance",
    "user_line",
    "user_place",
]
