"""How a tape is read, and which reading is taken where the plain one offers what cannot be cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leanrnn.groups.groups import Groups, Layer

__all__ = ["PLAIN", "READINGS", "Reading", "best_reading"]


@dataclass(frozen=True)
class Reading:
    """How a tape is read. Beyond the plain reading, each ties more, for code that the plain one does not understand."""

    words: str
    """For the report."""
    constants: bool = False
    """A fresh tensor of zeros or ones is as wide as what it meets: code makes it from a number that will follow."""
    everything: bool = False
    """Operators whose result is thrown away count too: they still run in the smaller model."""
    heads: bool = False
    """Of an axis split into heads whole heads leave, and no places in them."""


PLAIN = Reading("from the operators that lead to a result")
READINGS = (
    PLAIN,
    # Layers or directions that only seem to be on their own: all start from one tensor of zeros, and code that slices
    # the stacked states, or puts them where zeros stood, needs them of one width.
    Reading("from the operators that lead to a result, fresh zeros and ones as wide as what they meet", constants=True),
    # Layers whose last states are stacked and then not read: the stack still runs, and takes one width.
    Reading("from all operators, also those whose result is thrown away", everything=True),
    # Both in one model.
    Reading("from all operators, fresh zeros and ones as wide as what they meet", constants=True, everything=True),
    # Attention, and states that are matrices, scaled by the root of the size of a head: that has to stay.
    Reading("from the operators that lead to a result, whole heads where an axis is split into them", heads=True),
)
"""From the plainest on, as they are tried; each is there because some model shrinks under no other."""


def best_reading(
    groups: Groups, layers: list[Layer], attempt: Callable[[Reading], tuple[Groups, list[Layer]]]
) -> tuple[Groups, list[Layer]]:
    """The reading that offers most, the plainest of equals; one that fails nowhere ends the search."""
    for how in READINGS[1:]:
        others, all_layers = attempt(how)
        if _offered(others) > _offered(groups):
            groups, layers = others, all_layers
            if not groups.failed:
                break
    return groups, layers


def _offered(groups: Groups) -> tuple[int, int, bool]:
    """How much can leave at all, then how much of it on its own, then whether no trial was needed to tell.

    A reading that ties two widths which could each shrink alone offers the same rows in fewer components: it is better
    only if that lets other rows leave as well. What reads a component does not count, as tying adds readers.
    """
    rows = {
        (strip.tensor, strip.axis, position)
        for layer in groups
        for strip in layer.strips
        if strip.role == "weight" and not strip.reader
        for position in strip.positions.tolist()
    }
    return len(rows), sum(layer.width for layer in groups), bool(rows) and not groups.failed
