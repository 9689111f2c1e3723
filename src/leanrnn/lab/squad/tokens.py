"""Text as tokens that know where they stand, so that an answer is a piece of the text itself, not of its tokens."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

__all__ = ["Spans", "cover", "sentence", "tokenize"]

Spans = list[tuple[int, int]]
"""First character of every token, and the one behind its last."""

TOKEN = re.compile(
    r"""(?:[^\W\d_]\.){2,}          # U.S., which GloVe has with its points
    | \d+(?:[.,]\d+)+               # 1,000 and 3.5
    | [^\W\d_]+(?=n['\u2019]t\b)         # do, of don't
    | n['\u2019]t\b
    | ['\u2019](?:s|re|ve|ll|d|m)\b
    | \d+(?=[^\W\d_]+)              # 1950, of 1950s: answers end there
    | [^\W_]+
    | \S""",
    re.VERBOSE | re.IGNORECASE,
)


def tokenize(text: str) -> Spans:
    """Where the tokens of ``text`` stand: words, numbers, and every sign by itself. ::

    [text[i:j] for i, j in tokenize("It isn't 1,000 U.S. dollars.")]
    # ["It", "is", "n't", "1,000", "U.S.", "dollars", "."]
    """
    return [match.span() for match in TOKEN.finditer(text)]


def cover(spans: Spans, first: int, behind: int) -> tuple[int, int] | None:
    """The first and the last token that hold the characters from ``first`` up to ``behind``; None if none do."""
    i = bisect_right(spans, first, key=lambda span: span[1])
    j = bisect_left(spans, behind, key=lambda span: span[0]) - 1
    return (i, j) if i <= j else None


def sentence(text: str, first: int, behind: int) -> str:
    """The sentence that a piece of the text stands in. ::

    sentence("It rained. Bob left.", 11, 14)  # Bob left.
    """
    ends = [match.end() for match in re.finditer(r"[.!?][\"'\u201d\u2019)]*\s+|\n+", text)]
    start = max((end for end in ends if end <= first), default=0)
    end = min((end for end in ends if end >= behind), default=len(text))
    return text[start:end].strip()
