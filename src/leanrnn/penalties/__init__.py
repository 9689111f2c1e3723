"""What pushes whole groups to zero: values, gradients and proximal steps."""

from collections.abc import Callable, Mapping

from leanrnn.groups.groups import Groups
from leanrnn.penalties.base import Amount, Penalty
from leanrnn.penalties.group_lasso import GroupLasso
from leanrnn.penalties.l1 import L1

__all__ = ["L1", "PENALTIES", "Amount", "GroupLasso", "Penalty"]

PENALTIES: Mapping[str, Callable[[Groups], Penalty]] = {"group_lasso": GroupLasso, "l1": L1}
"""Those that :class:`~leanrnn.Sparsifier` knows by name; the tests of every penalty run over them."""
