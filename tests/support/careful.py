"""Where the rules are more careful than the truth: an axis they hold although an index of it could be cut out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from tests.support.brute import runs
from tests.support.trial import Case, Trial, same

__all__ = ["careful", "justified"]

JUSTIFIED = {
    r" (max|min|aminmax|prod|isin|put|masked_\w+|masked\.\w+|scatter\w*|norm|nn\.functional\.max_pool\w+)[.\[]": (
        "by chance: the index that was cut out is not the one these numbers depend on"
    ),
    r"is seen whole by (linalg|cholesky|triangular|geqrf|ormqr)|crossed": (
        "columns of a right-hand side, zero rows: no hidden width is known to go there"
    ),
    r"indexed by data|is seen whole by (take|put|any|sort)|arange": (
        "who is asked for is known only to the data; a mask cut along would need a rule of its own"
    ),
    r"is padded|is rolled|laid on a diagonal|unshuffle": "the length that is added is a number, or happens to be zero",
    r"slid over|spread out": "a window that is one long here, or that misses the index",
    r"fft": "undone by a second transform, which no single rule can see",
    r"diagonal matrix": "zeros beside the diagonal: no label can say so",
    r"(distance|margin|pdist|linalg\.norm\S*\[\(5).*summed over": "what keeps a root from zero is too small to see",
    r"gaussian_nll": "its code looks at the numbers before it uses them",
    r"without a rule|chunked": "listed in without_rule.txt, or code that takes its lengths as numbers",
}
"""Why an axis is held although it could go, by what the text of a finding matches."""
Place = tuple[int, int]
"""An input and an axis of it."""


def careful(case: Case) -> Iterator[str]:
    """Axes that are held although cutting any one index out, alone or together with one of another axis, leaves the
    rest as it was: whatever the numbers are ("any"), or where they are zero ("zero")."""
    if case.literal or not runs(case, [t.clone() for t in case.tensors]):
        return
    for kind, name in (("0", "any"), ("2", "zero")):
        numbers = [t.is_floating_point() or t.is_complex() for t in case.tensors]
        trial = Trial(case, "".join(kind if n else "0" for n in numbers))
        if trial.random:
            return
        for place in _held(trial):
            partners = next((p for p in _candidates(trial, place) if _could(trial, p, kind == "2")), None)
            if partners is not None:
                yield f"{name} {case.name}: axis {partners}: {_reason(trial, place)}"


def justified(text: str) -> str | None:
    """The reason why a rule may be that careful, if there is one."""
    return next((why for pattern, why in JUSTIFIED.items() if re.search(pattern, text)), None)


def _labels(trial: Trial, place: Place) -> np.ndarray:
    owner = next(o for o in trial.found.owners if (o.name, o.axis) == (str(place[0]), place[1]))
    return np.arange(owner.start, owner.start + owner.size)


def _held(trial: Trial) -> list[Place]:
    places = [(int(o.name), o.axis) for o in trial.found.owners if o.size > 2]
    return [p for p in places if trial.classes.pinned[trial.classes.of[_labels(trial, p)]].all()]


def _reason(trial: Trial, place: Place) -> str:
    return trial.classes.reason(_labels(trial, place)).partition(" at ")[0]


def _candidates(trial: Trial, place: Place) -> Iterator[tuple[Place, ...]]:
    """The axis alone, with one other that is as long, and with the same axis of every input."""
    size = trial.tensors[place[0]].shape[place[1]]
    others = [(i, a) for i, t in enumerate(trial.tensors) for a in range(t.ndim) if t.shape[a] == size]
    yield (place,)
    yield from ((place, other) for other in others if other != place)
    behind = trial.tensors[place[0]].ndim - place[1]
    yield tuple((i, a) for i, a in others if trial.tensors[i].ndim - a == behind)


def _could(trial: Trial, places: Sequence[Place], zero: bool) -> bool:
    size = trial.tensors[places[0][0]].shape[places[0][1]]
    return all(_cuts(trial, places, k, zero) for k in (0, size // 2, size - 1))


def _cuts(trial: Trial, places: Sequence[Place], index: int, zero: bool) -> bool:
    given = [t.clone() for t in trial.tensors]
    for i, axis in places if zero else ():
        given[i].select(axis, index).zero_()
    small = list(given)
    for i, axis in places:
        small[i] = _deleted(small[i], axis, index)
    try:
        before, after = trial.case.run(given), trial.case.run(small)
    except (RuntimeError, IndexError, ValueError):
        return False
    return len(before) == len(after) and all(_is_cut(a, b) for a, b in zip(before, after, strict=True))


def _deleted(tensor: Tensor, axis: int, index: int) -> Tensor:
    return torch.cat(
        [tensor.narrow(axis, 0, index), tensor.narrow(axis, index + 1, tensor.shape[axis] - index - 1)], axis
    )


def _is_cut(old: Tensor, new: Tensor) -> bool:
    """Whether ``new`` is ``old``, or ``old`` without one index of each axis that became shorter."""
    if old.ndim != new.ndim or any(n not in (o, o - 1) for o, n in zip(old.shape, new.shape, strict=True)):
        return False
    axis = next((a for a in range(old.ndim) if old.shape[a] != new.shape[a]), None)
    if axis is None:
        return same(old, new)
    return any(_is_cut(_deleted(old, axis, k), new) for k in range(old.shape[axis]))
