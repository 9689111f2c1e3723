"""From a model to a file that runs: export, eight bits, and the runtimes that read it.

``leanrnn.export`` and ``leanrnn.quantize`` are public there; here is what reads files and runs them.
"""

from leanrnn.deploy.export import Exported
from leanrnn.deploy.files import Arrays, inputs_for, said, session
from leanrnn.deploy.int8 import has_vnni
from leanrnn.deploy.runtimes import WARM_UP, caller, in_turns, installed, peak_of_fresh_process, quartiles, timed

__all__ = [
    "WARM_UP",
    "Arrays",
    "Exported",
    "caller",
    "has_vnni",
    "in_turns",
    "inputs_for",
    "installed",
    "peak_of_fresh_process",
    "quartiles",
    "said",
    "session",
    "timed",
]
