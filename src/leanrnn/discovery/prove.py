"""Proof before training: cut a random half of every width out of a copy and compare, so that nothing offered fails
later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from leanrnn.groups import Groups, Layer
from leanrnn.surgery.copying import user_line
from leanrnn.surgery.cut import Masks
from leanrnn.surgery.proof import Differs, cut_copy

__all__ = ["prove_layers"]


def prove_layers(model: nn.Module, groups: Groups, example: Any, hints: Mapping[str, str]) -> None:
    """Move every layer that cannot be cut exactly from ``groups.layers`` to ``groups.pinned``, with the reason.

    All layers are tried at once; where that fails, the guilty ones are found by bisection. ``hints`` are better reasons
    than an exception, by layer name.
    """

    def attempt(layers: Sequence[Layer]) -> str | None:
        part = Groups(layers, model=model)
        try:
            _, remembered = cut_copy(model, part, random_masks(layers), example)
        except Exception as error:
            return _reason(error)
        groups.remembered = tuple(dict.fromkeys((*groups.remembered, *remembered)))
        return None

    def passing(base: list[Layer], layers: list[Layer]) -> list[Layer]:
        reason = attempt([*base, *layers])
        if reason is None:
            return layers
        if len(layers) == 1:
            groups.failed = True
            groups.pinned.append((layers[0].name, hints.get(layers[0].name, reason)))
            return []
        half = len(layers) // 2
        first = passing(base, layers[:half])
        return first + passing([*base, *first], layers[half:])

    kept = passing([], list(groups.layers))
    groups.layers = tuple(la for la in groups.layers if la in kept)


def random_masks(layers: Sequence[Layer], seed: int = 0) -> Masks:
    """About half of every width, unequal in layers of one width, so that nothing relies on equal widths."""
    rng = np.random.default_rng(seed)
    masks = {}
    counts: dict[int, list[int]] = {}
    for layer in layers:
        left = counts.setdefault(layer.width, [])
        if not left:
            left += rng.permutation(np.arange(max(1, layer.width // 3), max(2, 2 * layer.width // 3 + 1))).tolist()
        mask = np.zeros(layer.width, np.bool_)
        mask[rng.permutation(layer.width)[: left.pop()]] = True
        masks[layer.name] = mask
    return masks


def _reason(error: Exception) -> str:
    if isinstance(error, Differs):
        return f"cutting it changes the result by {error.apart:.1e}"
    return f"once narrower, {type(error).__name__} at {user_line(error)}: {error}"
