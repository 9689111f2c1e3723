"""Install the packages of some published models beside leanrnn; see packages.py for which and why so.

python -m benchmarks reach setup NAME ...    # into the environment of this python
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.zoo import ZOO
from benchmarks.zoo.packages import CHOSEN, OLDER, needed


def install(pins: list[str], *options: str) -> None:
    """Exactly these: what they themselves ask for is not looked at."""
    if pins:
        command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, *options, *pins], check=True)


def without_cuda() -> None:
    """Take torchaudio's libraries away where torch has no CUDA.

    The package index has torchaudio for CUDA alone. It loads what it finds in this folder, and fails; where it finds
    nothing it does without. No model here needs what is in them.
    """
    spec = find_spec("torchaudio")
    if torch.version.cuda is None and spec is not None and spec.origin is not None:
        for library in (Path(spec.origin).parent / "lib").glob("*.so"):
            library.unlink()


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Install for the models that were named."""
    parser.add_argument("models", nargs="*", default=CHOSEN, help="names of entries, or all")
    models = parser.parse_args(words).models
    names = tuple(ZOO) if "all" in models else models
    install(needed("newer", names))
    install(needed("older", names), "--target", str(OLDER), "--upgrade")
    without_cuda()
