"""A fresh process that only runs a file, and prints its peak:

python -m leanrnn.deploy.peak onnxruntime small.onnx 1 batch=10 time=30
"""

from __future__ import annotations

import sys
from pathlib import Path

from leanrnn.deploy.runtimes import File
from leanrnn.deploy.timing import print_peak


def _main(runtime: str, path: str, threads: str, *words: str) -> None:
    sizes = {name: int(size) for name, size in (word.split("=") for word in words)}
    print_peak(File(Path(path), runtime, sizes).caller(int(threads)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
