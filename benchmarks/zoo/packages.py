"""The packages that published models need: which, at which versions, and how they come to stand beside torch.

requirements.txt has a line for each, with the models that import it; ``python -m benchmarks reach all --packages``
writes it where all of them run. Nobody's own list of dependencies is asked: most would bring another torch.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch

from benchmarks.zoo import ZOO

CHOSEN = (
    "espnet_seqrnnlm",
    "openunmix_umx",
    "torchnlp_weightdrop",
    "gluonts_deepar",
    "ncps_cfc",
    "pyg_gatedgraph",
    "medaka_gru",
)
"""A few of different fields whose packages are few and small."""
FOLDER = Path(__file__).parent
PINS = {"newer": FOLDER / "requirements.txt", "older": FOLDER / "older-requirements.txt"}
OLDER = Path(sys.prefix) / "older"
"""Folder of packages that some models need at another version; in front of all others for those alone."""
GIVEN = {"torch", "leanrnn", "pip", "setuptools"}  # there before any of these
HEAD = """\
# Packages of the published models of benchmarks/zoo, each with the models that import it. `make zoo` installs those of
# the models it runs, with --no-deps. Written by `python -m benchmarks reach all --packages`.
"""


def pinned(which: str) -> dict[str, list[str]]:
    """The newer or the older packages, ``name==version``, each with the models that need it."""
    lines = PINS[which].read_text().splitlines() if PINS[which].exists() else []
    pairs = (line.partition("#")[::2] for line in lines if not line.startswith("#"))
    return {package.strip(): models.split() for package, models in pairs}


def needed(which: str, models: Collection[str]) -> list[str]:
    """Those of them that some models need."""
    return [package for package, users in pinned(which).items() if not set(users).isdisjoint(models)]


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


def imported(name: str) -> dict[str, list[str]]:
    """The packages that building a model imports, newer and older."""
    ZOO[name].build()
    files = {vars(module).get("__file__") for module in list(sys.modules.values()) if isinstance(module, ModuleType)}
    found: dict[str, list[str]] = {"newer": [], "older": []}
    for package in metadata.distributions():
        place = Path(str(package.locate_file("")))
        if any(str(place / file) in files for file in package.files or ()) and package.name not in GIVEN:
            found["older" if place == OLDER else "newer"].append(f"{package.name}=={package.version}")
    return found


def record(name: str, found: dict[str, list[str]]) -> None:
    """Write into both files what a model was found to import."""
    for which, path in PINS.items():
        users = {package: [user for user in models if user != name] for package, models in pinned(which).items()}
        for package in found[which]:
            users.setdefault(package, []).append(name)
        order = list(ZOO)
        lines = [f"{each}  # {' '.join(sorted(users[each], key=order.index))}" for each in sorted(users, key=str.lower)]
        path.write_text(HEAD + "".join(f"{line}\n" for line in lines if not line.endswith("# ")))
