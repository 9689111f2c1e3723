"""What the rest of discovery asks of an operator, beyond how labels pass through it."""

from __future__ import annotations

from enum import Flag, auto

__all__ = ["Kind"]


class Kind(Flag):
    """What an operator does to numbers, in the words of a recurrent network; a rule is registered with its kind::

        @rule("aten.mm", kind=Kind.PRODUCT | Kind.STATE)

    Most operators need none. A kind decides which parameters are weights, which widths are recurrent, and which results
    are states that the caller hands in again. It never decides what can leave: that is the rule's matter.
    """

    NONE = 0
    POINTWISE = auto()
    """Every number on its own: made of states, the result is a state. Torch's tags say so of most such operators."""
    PRODUCT = auto()
    """A sum of products: a parameter that is a factor in it is a weight, and reads along the axis it sums over."""
    SUM = auto()
    """Adds numbers up: of a parameter times data, that is a product too."""
    SCAN = auto()
    """Goes along a sequence and carries something from step to step: what it is given is recurrent."""
    STEP = auto()
    """Takes a step, or a stretch of steps, out of a sequence: two steps that meet later tell of a recurrence."""
    STRETCH = auto()
    """What it takes out may be longer than one step, and is then as little a state as what it was taken of."""
    STATE = auto()
    """The result may be a state whatever went in: one step of many, or a projection of what a cell made."""
    MOVE = auto()
    """Lays numbers elsewhere and computes nothing: a transposed state is a state."""
    COPY = auto()
    """The same numbers in the same places, of its last tensor."""
    PASS = auto()
    """One tensor, its first, goes through and comes out step by step, as in a norm or in dropout."""
    JOIN = auto()
    """Lays tensors side by side and computes nothing. Steps side by side are a sequence, and no state."""
    READ = auto()
    """Hands a number to Python, which may decide by it: that counts, although no tensor comes out."""
