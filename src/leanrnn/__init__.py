"""Find the weights that exist only because a recurrent component exists, train them to zero together, cut them out.

>>> groups = leanrnn.discover(model, example)
>>> sparsifier = leanrnn.Sparsifier(groups, strength=2e-3).attach(optimizer)
>>> ...  # the training loop, unchanged
>>> small = leanrnn.shrink(model, groups)

This file is the public list, nothing else. Names are imported when first used, so that the command line can answer
``leanrnn --help`` without loading PyTorch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leanrnn import errors as errors
    from leanrnn.checkpoint import about as about
    from leanrnn.checkpoint import load as load
    from leanrnn.checkpoint import save as save
    from leanrnn.discover import discover as discover
    from leanrnn.export import export as export
    from leanrnn.groups import Groups as Groups
    from leanrnn.groups import Layer as Layer
    from leanrnn.l1 import L1 as L1
    from leanrnn.measure import measure as measure
    from leanrnn.operators import register as register
    from leanrnn.penalty import GroupLasso as GroupLasso
    from leanrnn.quantize import quantize as quantize
    from leanrnn.schedule import constant as constant
    from leanrnn.schedule import linear_ramp as linear_ramp
    from leanrnn.schedule import off_from as off_from
    from leanrnn.shrink import shrink as shrink
    from leanrnn.sparsify import Sparsifier as Sparsifier
    from leanrnn.threshold import ElementThreshold as ElementThreshold
    from leanrnn.threshold import GroupThreshold as GroupThreshold
    from leanrnn.threshold import choose_threshold as choose_threshold

__version__ = "0.1.0"

__all__ = [
    "L1",
    "ElementThreshold",
    "GroupLasso",
    "GroupThreshold",
    "Groups",
    "Layer",
    "Sparsifier",
    "about",
    "choose_threshold",
    "constant",
    "discover",
    "errors",
    "export",
    "linear_ramp",
    "load",
    "measure",
    "off_from",
    "quantize",
    "register",
    "save",
    "shrink",
]

_HOMES = {
    "ElementThreshold": "threshold",
    "GroupLasso": "penalty",
    "GroupThreshold": "threshold",
    "Groups": "groups",
    "L1": "l1",
    "Layer": "groups",
    "Sparsifier": "sparsify",
    "about": "checkpoint",
    "choose_threshold": "threshold",
    "constant": "schedule",
    "linear_ramp": "schedule",
    "off_from": "schedule",
    "discover": "discover",
    "export": "export",
    "load": "checkpoint",
    "measure": "measure",
    "quantize": "quantize",
    "register": "operators",
    "save": "checkpoint",
    "shrink": "shrink",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        if name in __all__:
            return import_module(f"leanrnn.{name}")
        raise AttributeError(f"module 'leanrnn' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"leanrnn.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """Keeps ``leanrnn.discover`` and ``leanrnn.shrink`` the functions: importing the files of the same names, which
    Python does behind every other name, would put the modules in their place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
