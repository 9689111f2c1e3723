"""What the library warns of while a run ends or is cut: a note of the run, for whoever looks at it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from leanrnn.errors import LeanRNNWarning

__all__ = ["noted"]


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Warnings of leanrnn become notes, others stay warnings. ::

    with noted(run.notes):
        small = leanrnn.shrink(model, groups)
    """
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", LeanRNNWarning)
        yield
    for each in found:
        if issubclass(each.category, LeanRNNWarning):
            notes.append(str(each.message))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
