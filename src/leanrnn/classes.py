"""Connected components of all ties: which labels leave together, which of them can, and which widths they make up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from leanrnn.groups import Layer, Link, Role, Strip
from leanrnn.labels import Labels
from leanrnn.propagate import Owner, Propagation, weights_of

__all__ = ["Classes", "layers_of", "solve"]


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

    def reason(self, labels: Labels) -> str:
        """Why the first pinned class among the labels is pinned."""
        for cls in np.unique(self.of[labels[labels >= 0]]):
            if int(cls) in self.reasons:
                return self.reasons[int(cls)]
        return "it cannot leave"


def solve(found: Propagation, pins: Sequence[tuple[Labels, str]]) -> Classes:
    """Classes of all labels; ``pins`` are added to those the operators asked for (what reaches the result)."""
    ties = found.ties
    left = [a for a, _, _ in ties.tied]
    right = [b for _, b, _ in ties.tied]
    of = _components(ties.count, left, right)
    for _ in range(8):
        more = [pair for block in ties.blocks for pair in _decide(block, of)]
        if not more:
            break
        left += [a for a, _ in more]
        right += [b for _, b in more]
        of = _components(ties.count, left, right)
    owner, derived = _implied(found, of)
    count = int(of.max(initial=-1)) + 1
    pinned, reasons = _pinned(found, of, count, pins, (owner, derived))
    marks = np.zeros((3, count), np.bool_)
    for labels in found.recurrent:
        marks[0, of[labels[labels >= 0]]] = True
    for labels, before in found.loops:
        _mark_loop(found, of, labels, before, marks[0])
    _mark_states(found, of, marks[0])
    for labels in ties.needs:
        marks[1, of[labels]] = True
    marks[2, derived] = True
    return Classes(of, pinned, marks[0], marks[1], marks[2], (owner, derived), reasons)


def _components(count: int, left: Sequence[Labels], right: Sequence[Labels]) -> Labels:
    a = np.concatenate([*left, np.zeros(0, np.int64)])
    b = np.concatenate([*right, np.zeros(0, np.int64)])
    graph = coo_matrix((np.ones(len(a), np.int8), (a, b)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _decide(block: Labels, of: Labels) -> list[tuple[Labels, Labels]]:
    """A split axis stays rectangular if one of its axes carries the classes; where none does yet, the longest will."""
    if block.ndim < 2 or (block < 0).any():
        return []
    classes = of[block]
    for axis in range(block.ndim):
        others = tuple(a for a in range(block.ndim) if a != axis)
        if bool((classes == classes.max(axis=others, keepdims=True)).all()):
            return []
    sizes = list(block.shape)
    axis = max(range(block.ndim), key=lambda a: (sizes[a], a))
    flat = np.moveaxis(block, axis, 0).reshape(sizes[axis], -1)
    first = np.broadcast_to(flat[:, :1], flat.shape)
    return [(first.reshape(-1), flat.reshape(-1))]


def _implied(found: Propagation, of: Labels) -> tuple[Labels, Labels]:
    pairs = [np.stack([of[a], of[b]]) for a, b in found.ties.implied]
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    both = np.unique(np.concatenate(pairs, axis=1), axis=1)
    both = both[:, both[0] != both[1]]
    return both[0], both[1]


def _pinned(
    found: Propagation, of: Labels, count: int, pins: Sequence[tuple[Labels, str]], implied: tuple[Labels, Labels]
) -> tuple[NDArray[np.bool_], dict[int, str]]:
    pinned, reasons = np.zeros(count, np.bool_), dict[int, str]()
    nodes = found.tape.nodes
    located = [(lab, why, f" at {nodes[at].where}") for lab, why, at in found.ties.pins if at >= 0]
    fixed = [(lab, why, "") for lab, why, at in found.ties.pins if at < 0]
    for labels, why, where in (*located, *((lab, why, "") for lab, why in pins), *fixed):
        for cls in np.unique(of[labels[labels >= 0]]):
            pinned[cls] = True
            reasons.setdefault(int(cls), why + where)
    owner, derived = implied
    while bool((pinned[derived] & ~pinned[owner]).any()):
        for o, d in zip(owner[pinned[derived]], derived[pinned[derived]], strict=True):
            pinned[o] = True
            reasons.setdefault(int(o), reasons[int(d)])
    return pinned, reasons


def _mark_loop(found: Propagation, of: Labels, labels: Labels, before: int, marks: NDArray[np.bool_]) -> None:
    """A width is recurrent if one step of it meets what was made of itself at another step."""
    mine = set(np.unique(of[labels[labels >= 0]]).tolist())
    k = 0
    while before >> k:
        if before >> k & 1 and found.keys[k] >= 0 and int(of[found.keys[k]]) in mine:
            marks[list(mine)] = True
            return
        k += 1


def _mark_states(found: Propagation, of: Labels, marks: NDArray[np.bool_]) -> None:
    """A single step with the state handed in is recurrent too: some weight both reads and makes the width."""
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


@dataclass(frozen=True)
class _Members:
    """Every index of a named tensor that belongs to a class, as parallel arrays sorted by class, then label."""

    cls: Labels
    owner: Labels
    position: Labels
    label: Labels


def _members(found: Propagation, classes: Classes, wanted: NDArray[np.bool_]) -> _Members:
    owners = [(i, o) for i, o in enumerate(found.owners) if o.kind in ("parameter", "buffer")]
    label = np.concatenate([np.arange(o.start, o.start + o.size) for _, o in owners] + [np.zeros(0, np.int64)])
    owner = np.concatenate([np.full(o.size, i) for i, o in owners] + [np.zeros(0, np.int64)])
    position = np.concatenate([np.arange(o.size) for _, o in owners] + [np.zeros(0, np.int64)])
    cls = classes.of[label]
    parts = [np.stack([cls, owner, position, label])]
    for a, b in zip(*classes.implied, strict=True):
        if wanted[a]:
            use = cls == b
            parts.append(np.stack([np.full(int(use.sum()), a), owner[use], position[use], label[use]]))
    rows = np.concatenate(parts, axis=1)
    rows = rows[:, wanted[rows[0]]]
    rows = rows[:, np.lexsort((rows[3], rows[0]))]
    return _Members(rows[0], rows[1], rows[2], rows[3])


def layers_of(found: Propagation, classes: Classes, wanted: NDArray[np.bool_]) -> list[Layer]:
    """Classes with the same signature (so many places in the same axes of the same tensors) make up one width."""
    members = _members(found, classes, wanted)
    if not members.cls.size:
        return []
    spice = np.random.default_rng(0).integers(1, 2**62, size=len(found.owners), dtype=np.uint64)
    signature = np.zeros(len(wanted), np.uint64)
    np.add.at(signature, members.cls, spice[members.owner])
    layers: list[Layer] = []
    names: set[str] = set()
    roles = _roles(found)
    of_member = signature[members.cls]
    seen: list[np.uint64] = list(dict.fromkeys(of_member[np.argsort(members.label, kind="stable")].tolist()))
    for mark in seen:
        layer = _layer(found, classes, members, of_member == np.uint64(mark), roles, names)
        if layer is not None:
            layers.append(layer)
            names.add(layer.name)
    return layers


def _layer(
    found: Propagation,
    classes: Classes,
    members: _Members,
    use: NDArray[np.bool_],
    roles: dict[int, tuple[Role, bool]],
    names: set[str],
) -> Layer | None:
    cls, owner, position = members.cls[use], members.owner[use], members.position[use]
    first = {}
    for c, lab in zip(cls.tolist(), members.label[use].tolist(), strict=True):
        first[c] = min(lab, first.get(c, lab))
    order = {c: k for k, c in enumerate(sorted(first, key=lambda c: first[c]))}
    component = np.asarray([order[c] for c in cls.tolist()], np.int64)
    strips = []
    for i in np.unique(owner):
        at = owner == i
        o = found.owners[int(i)]
        line = np.lexsort((position[at], component[at]))
        strips.append(
            Strip(o.name, o.axis, o.shape, position[at][line], component[at][line], roles[int(i)][0], roles[int(i)][1])
        )
    if not any(s.role == "weight" for s in strips):
        return None
    ids = np.asarray(list(order))
    return Layer(
        name=_name(found, classes, strips, names),
        width=len(order),
        strips=tuple(strips),
        needs_zero_bias=bool(classes.needs_zero_bias[ids].any()),
        links=_links(found, classes, next(iter(order))),
        recurrent=bool(classes.recurrent[ids].any()),
    )


def _roles(found: Propagation) -> dict[int, tuple[Role, bool]]:
    weights = {found.tape.sources[i].name for i in weights_of(found.tape)}
    read = np.zeros(found.ties.count, np.bool_)
    carried = np.zeros(found.ties.count, np.bool_)
    for labels in found.ties.readers:
        read[labels[labels >= 0]] = True
    for labels in found.ties.carried:
        carried[labels[labels >= 0]] = True
    roles: dict[int, tuple[Role, bool]] = {}
    for i, o in enumerate(found.owners):
        role: Role = "carried" if o.kind == "buffer" else "weight" if o.name in weights else "bias"
        if o.size and carried[o.start]:
            role = "carried"
        roles[i] = (role, bool(o.size) and bool(read[o.start : o.start + o.size].any()))
    return roles


def _name(found: Propagation, classes: Classes, strips: Sequence[Strip], names: set[str]) -> str:
    """Named after the weight that both makes and reads the width (the recurrent one), or the first that makes it."""
    axes: dict[str, set[int]] = {}
    for strip in strips:
        axes.setdefault(strip.tensor, set()).add(strip.axis)
    loops = [s.tensor for s in strips if s.role == "weight" and len(axes[s.tensor]) > 1]
    makers = [s.tensor for s in strips if s.role == "weight" and not s.reader]
    for tensor in dict.fromkeys([*loops, *makers, *(s.tensor for s in strips if s.role == "weight")]):
        short = width_name(tensor)
        if short not in names:
            return short
        if tensor not in names:
            return tensor
    return f"{strips[0].tensor}.{len(names)}"


def width_name(tensor: str) -> str:
    """``rnn.weight_hh_l0_reverse`` -> ``rnn.l0_reverse``; ``cell.weight_hh`` -> ``cell``."""
    path, _, base = tensor.rpartition(".")
    level = re.search(r"_(l\d+(?:_reverse)?)$", base)
    if level:
        return f"{path}.{level[1]}" if path else level[1]
    path = re.sub(r"\.parametrizations\.\w+$", "", path)
    return path or base


def _links(found: Propagation, classes: Classes, cls: int) -> tuple[Link, ...]:
    """The operators whose ties hold one class together, in the order they ran."""
    links: dict[tuple[str, str, str], None] = {}
    for a, b, at in found.ties.tied:
        here = np.flatnonzero(classes.of[a] == cls)
        if here.size and at >= 0:
            i = int(here[0])
            sides = f"{_describe(found.owners, int(a[i]))} ~ {_describe(found.owners, int(b[i]))}"
            node = found.tape.nodes[at]
            links[(node.name, sides, node.where)] = None
    seen: set[tuple[str, str]] = set()
    chain = []
    for operator, sides, where in links:
        if (sides, where) not in seen:
            seen.add((sides, where))
            chain.append(Link(operator, sides, where))
    return tuple(chain)


def _describe(owners: Sequence[Owner], label: int) -> str:
    for o in owners:
        if o.start <= label < o.start + o.size:
            return f"{o.name if o.kind != 'input' else 'input ' + o.name} axis {o.axis}"
    return "an axis made on the way"
