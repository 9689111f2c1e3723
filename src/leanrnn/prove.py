"""Proof before training: cut a random half of every width out of a copy and compare with the zeroed copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from leanrnn.copying import copy_model, user_line
from leanrnn.groups import Groups, Layer
from leanrnn.surgery import Masks, cut_
from leanrnn.verify import difference, run, tolerance, zero_

__all__ = ["prove_layers"]


def prove_layers(model: nn.Module, groups: Groups, example: Any) -> None:
    """Move every layer that cannot be cut exactly from ``groups.layers`` to ``groups.pinned``, with the reason."""
    def attempt(layers: Sequence[Layer]) -> str | None:
        part = Groups(layers, model=model)
        masks = _random_masks(layers)
        zeroed = copy_model(model)
        zero_(zeroed, layers, masks)
        expected = run(zeroed, example)
        try:
            cut_(zeroed, part, masks)
            actual = run(zeroed, example)
        except Exception as error:
            return f"{type(error).__name__} at {user_line(error)} once it is narrower: {error}"
        apart = difference(expected, actual)
        if apart <= tolerance(zeroed, expected, actual):
            return None
        return f"the cut model differs from the zeroed one by {apart:.1e}"

    def passing(base: list[Layer], layers: list[Layer]) -> list[Layer]:
        reason = attempt([*base, *layers])
        if reason is None:
            return layers
        if len(layers) == 1:
            groups.pinned.append((layers[0].name, reason))
            return []
        half = len(layers) // 2
        first = passing(base, layers[:half])
        return first + passing([*base, *first], layers[half:])

    kept = passing([], list(groups.layers))
    groups.layers = tuple(la for la in groups.layers if la in kept)


def _random_masks(layers: Sequence[Layer]) -> Masks:
    """About half of every width, unequal on purpose, so that nothing relies on equal widths."""
    rng = np.random.default_rng(0)
    masks = {}
    for layer in layers:
        count = int(rng.integers(max(1, layer.width // 3), max(2, 2 * layer.width // 3 + 1)))
        mask = np.zeros(layer.width, np.bool_)
        mask[rng.permutation(layer.width)[: min(count, layer.width)]] = True
        masks[layer.name] = mask
    return masks
