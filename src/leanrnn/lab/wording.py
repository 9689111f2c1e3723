"""What runs of a task are told about with: keys of their metrics, and the words for them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Wording"]


@dataclass(frozen=True, kw_only=True)
class Wording:
    """Keys and words, a field each. ::

    story.task.wording.score_name  # "validation perplexity"
    """

    line: str
    """Kind of the lines of the metrics that are the points of a curve."""
    step: str
    """What they count."""
    steps: str
    """The setting that says how many there are."""
    score: str
    """Key of the score that runs are compared by, in a line and in the result."""
    score_name: str
    other: str
    """Key of the score beside it."""
    other_name: str
    lower: bool
    """Whether less is better."""
    short: str
    """Name of the curves of scores."""
    curves: tuple[tuple[str, str], ...]
    """Names and keys of these curves."""
    sizes_name: str
    """What has the widths that are learned."""
    score_phrase: str
    """The end of a sentence on the score."""
    other_phrase: str
    """The same on the other score, behind it."""
    note: str
    """How the curves are to be read."""
    call: str
    """What a call reads when models are timed."""
