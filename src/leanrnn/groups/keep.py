"""Which components stay: the living, a share, a number, or those named, rounded up and never none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import GroupsError
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups, Layer
from leanrnn.groups.norms import alive, group_norms

__all__ = ["choose", "largest"]

Indices = NDArray[np.int64]
Ratio = float | Mapping[str, float]


def choose(
    groups: Groups,
    keep: Mapping[str, Sequence[int] | Indices] | None = None,
    ratio: Ratio | None = None,
    keep_widths: Mapping[str, int] | None = None,
    round_to: int = 1,
) -> Masks:
    """Per layer which components stay; at least one does. With no wish given, the dead ones go."""
    if sum(wish is not None for wish in (keep, ratio, keep_widths)) > 1:
        raise GroupsError("keep, ratio and keep_widths say the same thing in three ways. Give one of them.")
    if round_to < 1:
        raise GroupsError(f"round_to is {round_to}. Give a number of 1 or more.")
    norms = {name: value.double().cpu().numpy() for name, value in group_norms(groups).items()}
    if keep is not None:
        masks = groups.keep_mask(keep)
    elif ratio is not None:
        masks = largest(groups, norms, _widths_from_ratio(groups, ratio))
    elif keep_widths is not None:
        masks = largest(groups, norms, keep_widths)
    else:
        masks = alive(groups)
    return {layer.name: _rounded(masks[layer.name], norms[layer.name], round_to) for layer in groups}


def _widths_from_ratio(groups: Groups, ratio: Ratio) -> dict[str, int]:
    shares = ratio if isinstance(ratio, Mapping) else dict.fromkeys(groups.names, ratio)
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise GroupsError(f"ratio {share} of layer {name!r} is not a share. Give the share to remove, from 0 to 1.")
    return {name: max(1, groups[name].width - int(share * groups[name].width)) for name, share in shares.items()}


def _checked(layer: Layer, width: int) -> int:
    if not 1 <= width <= layer.width:
        raise GroupsError(f"keep_widths[{layer.name!r}] is {width}. Give a number from 1 to {layer.width}.")
    return width


def largest(
    groups: Groups, worth: Mapping[str, NDArray[np.float64]], widths: Mapping[str, int]
) -> dict[str, NDArray[np.bool_]]:
    """Per layer the components that are worth most; a layer without a wanted width keeps all. ::

    largest(groups, {"rnn.l0": norms}, {"rnn.l0": 100})["rnn.l0"].sum()  # 100
    """
    checked = {name: _checked(groups[name], n) for name, n in widths.items()}
    return groups.keep_mask({n: np.argsort(-worth[n], kind="stable")[:width] for n, width in checked.items()})


def _rounded(mask: NDArray[np.bool_], norms: NDArray[np.float64], round_to: int) -> NDArray[np.bool_]:
    """``mask`` with the largest of the others added, up to a multiple of ``round_to`` and at least one."""
    count = max(1, int(mask.sum()))
    count = min(len(mask), -(-count // round_to) * round_to)
    order = np.argsort(np.where(mask, -np.inf, -norms), kind="stable")
    return np.isin(np.arange(len(mask)), order[:count])
