"""Find the weights that exist only because a recurrent component exists, train them to zero together, cut them out.

>>> groups = leanrnn.discover(model, example)
>>> budget = leanrnn.Budget(mult_adds="25%")
>>> sparsifier = leanrnn.Sparsifier(groups, budget=budget, steps=len(loader)).attach(optimizer)
>>> ...  # the training loop, unchanged
>>> small = leanrnn.shrink(model, groups)

This file is the public list, nothing else. Names are imported when first used, so that the command line can answer
``leanrnn --help`` without loading PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leanrnn import errors as errors
    from leanrnn.cost import measure as measure
    from leanrnn.deploy.export import export as export
    from leanrnn.deploy.latency import fit_latency as fit_latency
    from leanrnn.deploy.quantize import quantize as quantize
    from leanrnn.discovery.discover import discover as discover
    from leanrnn.discovery.register import register as register
    from leanrnn.groups import Budget as Budget
    from leanrnn.groups import Groups as Groups
    from leanrnn.groups import Layer as Layer
    from leanrnn.penalties import L1 as L1
    from leanrnn.penalties import GroupLasso as GroupLasso
    from leanrnn.penalties import Penalty as Penalty
    from leanrnn.refitting.refit import refit as refit
    from leanrnn.sparsify import Course as Course
    from leanrnn.sparsify import ElementThreshold as ElementThreshold
    from leanrnn.sparsify import GroupThreshold as GroupThreshold
    from leanrnn.sparsify import Saliency as Saliency
    from leanrnn.sparsify import Sparsifier as Sparsifier
    from leanrnn.sparsify import Strength as Strength
    from leanrnn.sparsify import choose_threshold as choose_threshold
    from leanrnn.sparsify import constant as constant
    from leanrnn.sparsify import linear_ramp as linear_ramp
    from leanrnn.sparsify import off_from as off_from
    from leanrnn.sparsify import resumable as resumable
    from leanrnn.surgery.checkpoint import about as about
    from leanrnn.surgery.checkpoint import load as load
    from leanrnn.surgery.checkpoint import save as save
    from leanrnn.surgery.shrink import shrink as shrink
    from leanrnn.teaching import SoftTargets as SoftTargets
    from leanrnn.teaching import StoredTargets as StoredTargets
    from leanrnn.teaching import Teacher as Teacher
    from leanrnn.teaching import distil as distil
    from leanrnn.teaching import record_targets as record_targets
    from leanrnn.teaching import similar_words as similar_words

__version__ = "0.1.0"

__all__ = [
    "L1",
    "Budget",
    "Course",
    "ElementThreshold",
    "GroupLasso",
    "GroupThreshold",
    "Groups",
    "Layer",
    "Penalty",
    "Saliency",
    "SoftTargets",
    "Sparsifier",
    "StoredTargets",
    "Strength",
    "Teacher",
    "about",
    "choose_threshold",
    "constant",
    "discover",
    "distil",
    "errors",
    "export",
    "fit_latency",
    "linear_ramp",
    "load",
    "measure",
    "off_from",
    "quantize",
    "record_targets",
    "refit",
    "register",
    "resumable",
    "save",
    "shrink",
    "similar_words",
]

_HOMES = {
    "cost": "measure",
    "deploy.export": "export",
    "deploy.latency": "fit_latency",
    "deploy.quantize": "quantize",
    "discovery.discover": "discover",
    "discovery.register": "register",
    "groups": "Budget Groups Layer",
    "penalties": "GroupLasso L1 Penalty",
    "refitting.refit": "refit",
    "sparsify.course": "Course",
    "sparsify": "ElementThreshold GroupThreshold Sparsifier Strength choose_threshold constant linear_ramp off_from",
    "sparsify.resume": "resumable",
    "sparsify.saliency": "Saliency",
    "surgery.checkpoint": "about load save",
    "surgery.shrink": "shrink",
    "teaching": "SoftTargets StoredTargets Teacher distil record_targets similar_words",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("leanrnn.errors")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'leanrnn' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"leanrnn.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
