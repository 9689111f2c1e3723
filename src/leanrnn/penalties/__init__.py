"""What pushes whole groups to zero: values, gradients and proximal steps."""

from leanrnn.penalties.group_lasso import Amount, GroupLasso, Penalty
from leanrnn.penalties.l1 import L1

__all__ = ["L1", "Amount", "GroupLasso", "Penalty"]
