"""Running somebody's model without leaving a trace."""

from leanrnn.running.call import arguments, call, leaves
from leanrnn.running.compare import difference, run, tolerance
from leanrnn.running.copies import copy_example, copy_model
from leanrnn.running.quiet import quiet
from leanrnn.running.refused import refused
from leanrnn.running.user_line import place_in_trace, user_line, user_place

__all__ = [
    "arguments",
    "call",
    "copy_example",
    "copy_model",
    "difference",
    "leaves",
    "place_in_trace",
    "quiet",
    "refused",
    "run",
    "tolerance",
    "user_line",
    "user_place",
]
