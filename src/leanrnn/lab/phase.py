"""How far a training to a budget is, in the words that users read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leanrnn.lab.sparse_settings import SparseSettings

__all__ = ["phase_of", "towards"]

WORDS = {"warm up": "full size", "shrink": "shrinking", "recover": "recovering"}


def phase_of(phase: str, recovers: bool = True) -> str:
    """The phase of a sparsifier's progress in words; once all steps are done, the one that came last. ::

    phase_of("warm up")  # full size
    """
    return WORDS.get(phase, WORDS["recover" if recovers else "shrink"])


def towards(progress: Any, config: SparseSettings) -> dict[str, Any]:
    """How far a budget is, by ``status().progress`` of a sparsifier, as fields of an event: the phase, and how much of
    every limit the model takes. ::

    towards(sparsifier.status().progress, config)  # {"phase": "shrinking", "used": {"mult_adds": 2.31}}
    """
    if progress is None:
        return {}
    used = {name: now / limit for name, (now, limit) in progress.costs.items()}
    return {"phase": phase_of(progress.phase, config.warm_up + config.shrink < 1), "used": used}
