"""Run a written file at lengths nobody traced, and compare it with the model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leanrnn.deploy.containers import tensors_of
from leanrnn.deploy.formats.base import Runner
from leanrnn.deploy.libraries import in_short
from leanrnn.deploy.variants import Variant
from leanrnn.errors import ExportError
from leanrnn.running.copies import copy_example

__all__ = ["TOLERANCE", "OtherLengthsError", "check"]

TOLERANCE = 1e-4
"""How far numbers of single precision may be apart, relative to the largest of an output."""


class OtherLengthsError(ExportError):
    """The file is right at the lengths of the example, and not at others."""


def check(run: Runner, variants: Sequence[Variant], outputs: Sequence[str]) -> float:
    """The largest difference over all variants; an error if it is too large."""
    worst = 0.0
    for variant in variants:
        lengths = ", ".join(f"{name} {size}" for name, size in variant.sizes.items()) or "the example"
        kind = OtherLengthsError if variant.sizes else ExportError
        try:
            found = run(tensors_of(copy_example(variant.example)))
        except Exception as error:
            raise kind(f"the written file does not run with {lengths}: {in_short(error)}. No file was kept.") from error
        if len(found) != len(outputs):
            raise kind(f"the written file gives {len(found)} tensors, the model {len(outputs)}. No file was kept.")
        for name, a, b in zip(outputs, variant.answer, found, strict=True):
            if apart := _apart(name, a.detach().cpu(), b):
                raise kind(f"with {lengths}, {apart}. No file was kept.")
            worst = max(worst, _difference(a.detach().cpu(), b))
    return worst


def _apart(name: str, expected: Tensor, found: Tensor) -> str:
    """How an output differs too much; empty if it does not."""
    if expected.shape != found.shape:
        shapes = tuple(found.shape), tuple(expected.shape)
        return f"{name} has the shape {shapes[0]} in the written file and {shapes[1]} in the model"
    difference = _difference(expected, found)
    if difference <= TOLERANCE:
        return ""
    return f"{name} of the written file differs by {difference:.1e} from the model"


def _difference(expected: Tensor, found: Tensor) -> float:
    """Relative to the largest number; what is no number in both is equal, and so is what is infinite in both."""
    a, b = expected.double(), found.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    scale = float(a[a.isfinite()].abs().max()) if bool(a.isfinite().any()) else 0.0
    far = float((a - b).abs()[~same].nan_to_num(nan=torch.inf).max())
    return far / (scale or 1.0)
