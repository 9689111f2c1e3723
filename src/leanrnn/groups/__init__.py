"""Components and groups: which weights leave together, how large they are, and which components stay."""

from leanrnn.groups.budget import Budget
from leanrnn.groups.costs import Cost, Costs, count_weights
from leanrnn.groups.data import Held, Indices, Layer, Link, Masks, Place, Role, Strip
from leanrnn.groups.groups import Groups, index_tensor, named_tensors
from leanrnn.groups.keep import choose
from leanrnn.groups.limits import Limits
from leanrnn.groups.norms import alive, group_norms
from leanrnn.groups.numbers import check_numbers, without_numbers
from leanrnn.groups.within import keep_evenly, keep_within

__all__ = [
    "Budget",
    "Cost",
    "Costs",
    "Groups",
    "Held",
    "Indices",
    "Layer",
    "Limits",
    "Link",
    "Masks",
    "Place",
    "Role",
    "Strip",
    "alive",
    "check_numbers",
    "choose",
    "count_weights",
    "group_norms",
    "index_tensor",
    "keep_evenly",
    "keep_within",
    "named_tensors",
    "without_numbers",
]
