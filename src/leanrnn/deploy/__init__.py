"""From a model to a file that runs: export, eight bits, and the runtimes that read it.

``leanrnn.export`` and ``leanrnn.quantize`` are public there; here is what reads files and runs them. Importing this
loads no torch, so that a process can show what another runtime needs without it.
"""

from leanrnn.deploy.export import Exported
from leanrnn.deploy.files import free_lengths
from leanrnn.deploy.formats import FORMATS, Format, format_of, metadata_of, runner_of
from leanrnn.deploy.formats.onnx.int8 import has_vnni
from leanrnn.deploy.libraries import ONNX, Extra
from leanrnn.deploy.quantize import Quantized, Speed
from leanrnn.deploy.runtimes import RUNTIMES, File, Runtime, model_call
from leanrnn.deploy.timing import (
    far_apart,
    in_turns,
    is_noisy,
    peak_of_fresh_process,
    print_peak,
    quartiles,
    timed,
    times_faster,
)

__all__ = [
    "FORMATS",
    "ONNX",
    "RUNTIMES",
    "Exported",
    "Extra",
    "File",
    "Format",
    "Quantized",
    "Runtime",
    "Speed",
    "far_apart",
    "format_of",
    "free_lengths",
    "has_vnni",
    "in_turns",
    "is_noisy",
    "metadata_of",
    "model_call",
    "peak_of_fresh_process",
    "print_peak",
    "quartiles",
    "runner_of",
    "timed",
    "times_faster",
]
