"""What a user is told while training: that something has no effect, or went too far."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from leanrnn.errors import LeanRNNWarning

__all__ = ["warn", "warn_of_collapse"]


def warn(message: str) -> None:
    """Tell whoever called the sparsifier."""
    warnings.warn(message, LeanRNNWarning, stacklevel=3)


def warn_of_collapse(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Say so when a layer has lost all but one of its components: it hardly carries anything then."""
    gone = [name for name, width in after.items() if width == 1 < before[name]]
    if gone:
        warnings.warn(
            f"{', '.join(gone)}: only one component is left. If that is not what you want, keep more with "
            "Budget(..., floors=16), or give a smaller strength or threshold.",
            LeanRNNWarning,
            stacklevel=2,
        )
