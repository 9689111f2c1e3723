"""The packages that published models need: which, at which versions, and how they come to stand beside torch.

benchmarks/zoo-requirements.txt has a line for each, with the models that import it; it is written by
``reach.py --packages`` where all of them run. Nobody's own list of dependencies is asked: most would bring another
torch.
"""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from zoo import RECIPES

CHOSEN = ("medaka_gru",)
"""A few of different fields whose packages are few and small."""
REQUIREMENTS = Path(__file__).parents[1] / "zoo-requirements.txt"
OLDER = Path(sys.prefix) / "older"
"""Folder of packages that some models need at another version; in front of all others for those alone."""
GIVEN = {"torch", "leanrnn", "pip", "setuptools"}  # there before any of these
HEAD = """\
# Packages of the published models of benchmarks/zoo, each with the models that import it. `make zoo` installs those of
# the models it runs, with --no-deps. Written by `python benchmarks/reach.py --packages`.
"""


def libraries() -> None:
    """Let torchvision be imported beside a torch without CUDA.

    The package index has it for CUDA alone. Its library does not load then, which it accepts, but it goes on to
    describe two of that library's operators, which it does not. No model here runs them, so declaring them is enough.
    """
    if torch.version.cuda is None and find_spec("torchvision"):
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                torch.library.define(
                    f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                )


def modules(name: str) -> dict[str, Any]:
    """The packages that are imported when a model is built, ``name==version``, and those of the older ones."""
    RECIPES[name].build()
    found = {str(Path(module.__file__)) for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
    packages: dict[str, Any] = {"packages": [], "older": []}
    for package in metadata.distributions():
        place = Path(str(package.locate_file("")))
        if any(str(place / file) in found for file in package.files or () if file.suffix in (".py", ".so")):
            where = "older" if place == OLDER.resolve() or place == OLDER else "packages"
            packages[where].append(f"{package.name}=={package.version}")
    return packages


def requirements(found: dict[str, dict[str, Any]]) -> None:
    """Write what was found to be imported."""
    users: dict[str, list[str]] = {}
    for name, packages in found.items():
        for package in (*packages["packages"], *(f"{each} ; older" for each in packages["older"])):
            users.setdefault(package, []).append(name)
    lines = [f"{package}  # {' '.join(users[package])}" for package in sorted(users, key=str.lower)]
    REQUIREMENTS.write_text(HEAD + "\n".join(line for line in lines if line.split("==")[0] not in GIVEN) + "\n")
