"""How far a training to a budget is, in the words that users read."""

from __future__ import annotations

__all__ = ["phase_of"]

WORDS = {"warm up": "full size", "shrink": "shrinking", "recover": "recovering"}


def phase_of(phase: str, recovers: bool = True) -> str:
    """The phase of a sparsifier's progress in words; once all steps are done, the one that came last. ::

    phase_of("warm up")  # full size
    """
    return WORDS.get(phase, WORDS["recover" if recovers else "shrink"])
