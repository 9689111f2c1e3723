"""From classes to widths: classes that sit in the same axes of the same tensors make up one layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leanrnn.discovery.classes import Classes
from leanrnn.discovery.labels import Labels
from leanrnn.discovery.propagate import Owner, Propagation
from leanrnn.discovery.reach import weights_of
from leanrnn.groups.data import Given, Held, Place
from leanrnn.groups.groups import Layer, Link, Role, Strip

__all__ = ["layers_of", "width_name"]


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


def layers_of(
    found: Propagation, classes: Classes, wanted: NDArray[np.bool_], places: Sequence[Place] = ()
) -> list[Layer]:
    """Classes with the same signature (so many places in the same axes of the same tensors) make up one width.

    ``places`` is where the tensors are that the model holds besides.
    """
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
        layer = _layer(found, classes, members, of_member == np.uint64(mark), roles, names, places)
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
    places: Sequence[Place],
) -> Layer | None:
    cls, owner, position = members.cls[use], members.owner[use], members.position[use]
    first: dict[int, int] = {}
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
        name=_name(strips, names),
        width=len(order),
        strips=tuple(strips),
        needs_zero_bias=bool(classes.needs_zero_bias[ids].any()),
        links=_links(found, classes, next(iter(order))),
        recurrent=bool(classes.recurrent[ids].any()),
        held=tuple(_held(found, classes, order, places)),
        given=tuple(_given(found, classes, order)),
    )


def _held(found: Propagation, classes: Classes, order: dict[int, int], places: Sequence[Place]) -> Iterator[Held]:
    """Tensors besides whose last axis has components of this layer; one that has others in another row is left as it
    is, for modules that accept it."""
    for owner in found.owners:
        if owner.kind != "held":
            continue
        rows = classes.of[owner.start : owner.start + owner.size].reshape(-1, owner.shape[-1])
        mine = [j for j in range(owner.shape[-1]) if int(rows[0, j]) in order]
        if mine and (rows == rows[0]).all():
            components = np.asarray([order[int(rows[0, j])] for j in mine], np.int64)
            yield Held(*places[int(owner.name)], owner.shape[-1], np.asarray(mine, np.int64), components)


def _given(found: Propagation, classes: Classes, order: dict[int, int]) -> Iterator[Given]:
    """States handed in whose last axis has components of this layer, of all rows or of some along the first axis."""
    for owner in found.owners:
        if owner.kind != "input" or owner.name not in found.states:
            continue
        rows = classes.of[owner.start : owner.start + owner.size].reshape(owner.shape[0], -1, owner.shape[-1])
        lines = [None] if (rows == rows[0, 0]).all() else range(owner.shape[0])
        for row in lines:
            line = rows[row or 0, 0]
            mine = [j for j in range(owner.shape[-1]) if int(line[j]) in order]
            if mine:
                components = np.asarray([order[int(line[j])] for j in mine], np.int64)
                yield Given(int(owner.name), row, owner.shape[-1], np.asarray(mine, np.int64), components)


def _roles(found: Propagation) -> dict[int, tuple[Role, bool]]:
    weights, masks = ({found.tape.sources[i].name for i in which} for which in (weights_of(found.tape), found.masks))
    read = np.zeros(found.ties.count, np.bool_)
    carried = np.zeros(found.ties.count, np.bool_)
    for labels in found.ties.readers:
        read[labels[labels >= 0]] = True
    for labels in (*found.ties.carried, *found.ties.divisors):
        carried[labels[labels >= 0]] = True
    roles: dict[int, tuple[Role, bool]] = {}
    for i, o in enumerate(found.owners):
        role: Role = "weight" if o.name in weights else "bias"
        if o.kind == "buffer" or o.name in masks - weights:
            role = "carried"
        if o.size and carried[o.start]:
            role = "carried"
        roles[i] = (role, bool(o.size) and bool(read[o.start : o.start + o.size].any()))
    return roles


def _name(strips: Sequence[Strip], names: set[str]) -> str:
    """Named after the weight that both makes and reads the width (the recurrent one), or the first that makes it."""
    makers = [s.tensor for s in strips if s.role == "weight" and not s.reader]
    loops = [s.tensor for s in strips if s.role == "weight" and s.reader and s.tensor in makers]
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
            what = {"input": f"input {o.name}", "held": "a tensor held by a module"}.get(o.kind, o.name)
            return f"{what} axis {o.axis}"
    return "an axis made on the way"
