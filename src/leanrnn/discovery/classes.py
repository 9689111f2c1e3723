"""Connected components of all ties: which labels leave together, which of them can, and which widths they make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from leanrnn.discovery.labels import Labels
from leanrnn.discovery.propagate import Propagation

__all__ = ["Classes", "solve"]


@dataclass
class Classes:
    """One class per label, and what is known of each class."""

    of: Labels
    pinned: NDArray[np.bool_]
    recurrent: NDArray[np.bool_]
    needs_zero_bias: NDArray[np.bool_]
    derived: NDArray[np.bool_]
    implied: tuple[Labels, Labels]
    reasons: dict[int, str]
    one_step: NDArray[np.bool_]
    """Recurrent by what is known of a layer that takes a single step: no weight reads what it made itself."""

    def reason(self, labels: Labels) -> str:
        """Why the first of their classes that cannot leave, or not on its own, has to stay."""
        classes = np.unique(self.of[labels[labels >= 0]]).tolist()
        return next(self.reasons[cls] for cls in classes if cls in self.reasons)


def solve(found: Propagation, pins: Sequence[tuple[Labels, str]]) -> Classes:
    """Classes of all labels; ``pins`` are added to those the operators asked for (what reaches the result)."""
    ties = found.ties
    left = [a for a, _, _ in ties.tied]
    right = [b for _, b, _ in ties.tied]
    of = _components(ties.count, left, right)
    # What ties one block may decide another (an axis that is split twice), so ask again until nothing is added.
    for _ in range(8):
        more = [pair for block in ties.blocks for pair in _decide(block, of)] + _same_derived(found, of)
        if not more:
            break
        left += [a for a, _ in more]
        right += [b for _, b in more]
        of = _components(ties.count, left, right)
    owner, derived = _implied(found, of)
    count = int(of.max(initial=-1)) + 1
    pinned, reasons = _pinned(found, of, count, pins, (owner, derived))
    _explain_derived(found, of, reasons)
    # Marks come after the ties: that two labels are one class is often known from the last operator only.
    marks = np.zeros((3, count), np.bool_)
    for labels in found.recurrence.sure:
        marks[0, of[labels[labels >= 0]]] = True
    one_step = np.zeros(count, np.bool_)
    for labels in found.recurrence.named:
        one_step[of[labels[labels >= 0]]] = True
    one_step &= ~marks[0]
    marks[0] |= one_step
    for labels, before in found.recurrence.meetings:
        _mark_loop(found, of, labels, before, marks[0])
    _mark_states(found, of, marks[0])
    for labels in ties.needs:
        marks[1, of[labels]] = True
    marks[2, derived] = True
    return Classes(of, pinned, marks[0], marks[1], marks[2], (owner, derived), reasons, one_step)


def _components(count: int, left: Sequence[Labels], right: Sequence[Labels]) -> Labels:
    a = np.concatenate([*left, np.zeros(0, np.int64)])
    b = np.concatenate([*right, np.zeros(0, np.int64)])
    graph = coo_matrix((np.ones(len(a), np.int8), (a, b)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _decide(block: Labels, of: Labels) -> list[tuple[Labels, Labels]]:
    """A split axis stays rectangular if one of its axes carries the classes; where none does, the likeliest will."""
    # Twelve indices viewed as (3, 4) must be a rectangle again once some have left: whole columns or whole rows go,
    # never a single index. Three gates that met element by element are tied as columns, k of each, and the four
    # columns are the components: decided. Two heads that nothing has tied are not: one would be narrower.
    if block.ndim < 2 or (block < 0).any():
        return []
    classes = of[block]
    for axis in range(block.ndim):
        others = tuple(a for a in range(block.ndim) if a != axis)
        if bool((classes == classes.max(axis=others, keepdims=True)).all()):
            return []
    # The axis along which most is tied already is the one that the model's own operators chose. Where they say nothing,
    # the longer axis gives more components to choose from, and the last is the one that people call the width.
    axis = max(range(block.ndim), key=lambda a: (_agreeing(_rows(classes, a)), block.shape[a], a))
    flat = _rows(block, axis)
    first = np.broadcast_to(flat[:, :1], flat.shape)
    return [(first.reshape(-1), flat.reshape(-1))]


def _same_derived(found: Propagation, of: Labels) -> list[tuple[Labels, Labels]]:
    """Two widths that take along the same flattened indices are one: a slice that is gone is gone for both."""
    # Weights of heads, (H, in, out): their results, flattened, meet the data that they read, flattened as (H, in). An
    # index of `in` takes (h, in) along for every h; `out` takes the same, so neither can leave without the other.
    first: dict[bytes, int] = {}
    pairs: list[tuple[int, int]] = []
    seen = set[bytes]()
    for a, b, _ in found.ties.implied:
        both = np.unique(np.stack([of[a].reshape(-1), of[b].reshape(-1)]), axis=1)
        if not both.size or both.tobytes() in seen:  # the same operator at every step
            continue
        seen.add(both.tobytes())
        owners, starts = np.unique(both[0], return_index=True)
        for owner, derived in zip(owners.tolist(), np.split(both[1], starts[1:]), strict=True):
            other = first.setdefault(derived.tobytes(), owner)
            if other != owner:
                pairs.append((owner, other))
    if not pairs:
        return []
    # One label of a class stands for all.
    classes, labels = np.unique(of, return_index=True)
    left, right = (labels[np.searchsorted(classes, np.array(side, np.int64))] for side in zip(*pairs, strict=True))
    return [(left, right)]


def _rows(block: Labels, axis: int) -> Labels:
    """What lies at each index of ``axis``, as one row."""
    return np.moveaxis(block, axis, 0).reshape(block.shape[axis], -1)


def _agreeing(rows: Labels) -> int:
    """How many places have the commonest class of their row; with nothing tied yet that is one a row."""
    ordered = np.sort(rows, axis=1)
    starts = np.concatenate([np.ones((len(rows), 1), np.bool_), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    at = np.flatnonzero(starts)
    runs = np.diff(np.append(at, rows.size))
    return int(np.maximum.reduceat(runs, np.searchsorted(at, np.arange(len(rows)) * rows.shape[1])).sum())


def _implied(found: Propagation, of: Labels) -> tuple[Labels, Labels]:
    pairs = [np.stack([of[a], of[b]]) for a, b, _ in found.ties.implied]
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Of classes, not of labels any more; what turned out to be one class implies nothing.
    both = np.unique(np.concatenate(pairs, axis=1), axis=1)
    both = both[:, both[0] != both[1]]
    return both[0], both[1]


def _pinned(
    found: Propagation, of: Labels, count: int, pins: Sequence[tuple[Labels, str]], implied: tuple[Labels, Labels]
) -> tuple[NDArray[np.bool_], dict[int, str]]:
    pinned, reasons = np.zeros(count, np.bool_), dict[int, str]()
    nodes = found.tape.nodes
    # A class has many reasons and shows its first: one with the user's line before one without.
    located = [(lab, why, f" at {nodes[at].where}") for lab, why, at in found.ties.pins if at >= 0]
    fixed = [(lab, why, "") for lab, why, at in found.ties.pins if at < 0]
    for labels, why, where in (*located, *((lab, why, "") for lab, why in pins), *fixed):
        for cls in np.unique(of[labels[labels >= 0]]):
            pinned[cls] = True
            reasons.setdefault(int(cls), why + where)
    # Index i of a width takes along what was made of it. If that cannot leave, i cannot: repeat until nothing changes.
    owner, derived = implied
    while bool((pinned[derived] & ~pinned[owner]).any()):
        for o, d in zip(owner[pinned[derived]], derived[pinned[derived]], strict=True):
            pinned[o] = True
            reasons.setdefault(int(o), reasons[int(d)])
    return pinned, reasons


def _explain_derived(found: Propagation, of: Labels, reasons: dict[int, str]) -> None:
    """Say of what leaves with another width, and never on its own, where the two met."""
    for a, b, at in found.ties.implied:
        node = found.tape.nodes[at]
        # Outer products have as many pairs as two widths multiplied: one owner says enough of each.
        classes, first = np.unique(of[b], return_index=True)
        for owner, derived in zip(of[a][first].tolist(), classes.tolist(), strict=True):
            if derived not in reasons:
                other = _owner_name(found, of, owner)
                reasons[derived] = f"leaves only along with {other}, which it meets in {node.name} at {node.where}"


def _owner_name(found: Propagation, of: Labels, cls: int) -> str:
    """The first parameter that has indices of a class."""
    named = (o.name for o in found.owners if o.kind == "parameter" and cls in of[o.start : o.start + o.size])
    return next(named, "a width made on the way")


def _mark_loop(found: Propagation, of: Labels, labels: Labels, before: int, marks: NDArray[np.bool_]) -> None:
    """A width is recurrent if one step of it meets what was made of itself at another step."""
    # x[0] + x[1] is a meeting of two steps as well, but an embedding made both: neither was made of the sum's width,
    # and nothing is marked. In c = f * c + x[t], the c that meets x[2] was made of x[0] and x[1], all of c's class.
    mine = np.unique(of[labels[labels >= 0]])
    if np.isin(of[found.recurrence.labels(before)], mine).any():
        marks[mine] = True


def _mark_states(found: Propagation, of: Labels, marks: NDArray[np.bool_]) -> None:
    """A single step with the state handed in is recurrent too: some weight both reads and makes the width."""
    # cell(x, h) runs one step: no loop is on the tape. That h is given, and that a matrix goes from h to h, shows it.
    inputs = [o for o in found.owners if o.kind == "input"]
    given = {int(c) for o in inputs for c in np.unique(of[o.start : o.start + o.size])}
    by_name: dict[str, list[set[int]]] = {}
    for owner in found.owners:
        if owner.kind == "parameter":
            by_name.setdefault(owner.name, []).append(
                set(np.unique(of[owner.start : owner.start + owner.size]).tolist())
            )
    for axes in by_name.values():
        for i, a in enumerate(axes):
            for b in axes[i + 1 :]:
                marks[list(a & b & given)] = True
