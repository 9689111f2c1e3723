"""Widths that end in something opaque: a recurrence may be hidden in it, so they are named and the reader told."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from leanrnn.discovery.classes import Classes
from leanrnn.discovery.functions import Opaque
from leanrnn.discovery.propagate import Propagation
from leanrnn.discovery.rules import find
from leanrnn.discovery.tape import Node, Tape
from leanrnn.discovery.widths import width_name

__all__ = ["hidden_widths", "hiding"]


def hidden_widths(found: Propagation, classes: Classes, named: Collection[str], alone: bool) -> list[tuple[str, str]]:
    """Every width that enters an opaque ``autograd.Function``, named like a layer, with the reason.

    Without its operators nobody can see whether it is recurrent. An operator without a rule pins what it meets, and is
    seldom a recurrence: it counts only ``alone``, if there is nothing else to say of the model.
    """
    nodes = found.tape.nodes
    read = np.zeros(found.ties.count, np.bool_)
    for labels in found.ties.readers:
        read[labels[labels >= 0]] = True
    widths: dict[str, str] = {}
    for labels, reason, at in found.ties.pins:
        if at < 0 or not (isinstance(nodes[at].op, Opaque) or (alone and _unknown(nodes[at]))):
            continue
        mine = set(classes.of[labels].tolist())
        for owner in found.owners:
            span = slice(owner.start, owner.start + owner.size)
            made = owner.kind == "parameter" and not read[span].any()
            if made and owner.size > 1 and mine.intersection(classes.of[span].tolist()):
                widths.setdefault(width_name(owner.name), f"{reason} at {nodes[at].where}")
    return [(name, reason) for name, reason in widths.items() if name not in named]


def hiding(tape: Tape) -> str:
    """What a recurrence could be hidden in that no weight leads to, as a sentence; nothing if there is nothing."""
    opaque = [f"{node.op.words} at {node.where}" for node in tape.nodes if isinstance(node.op, Opaque)]
    unknown = [f"{node.name}, an operator without a rule, at {node.where}" for node in tape.nodes if _unknown(node)]
    if not opaque + unknown:
        return ""
    return f" It may be hidden in {' and in '.join(dict.fromkeys(opaque + unknown))}."


def _unknown(node: Node) -> bool:
    return not isinstance(node.op, Opaque) and find(node.op) is None
