"""Proof before training: cut a random half of every width out of a copy and compare, so that nothing offered fails
later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.parametrize import ParametrizationList

from leanrnn.discovery.computed import computed_number
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups, Layer
from leanrnn.running.compare import run
from leanrnn.running.user_line import user_line
from leanrnn.surgery.proof import Differs, cut_copy

__all__ = ["note_blind_proof", "prove_layers", "try_cut"]


def prove_layers(model: nn.Module, groups: Groups, example: Any, hints: Mapping[str, str]) -> None:
    """Move every layer that cannot be cut exactly from ``groups.layers`` to ``groups.pinned``, with the reason.

    All layers are tried at once; where that fails, the guilty ones are found by bisection. ``hints`` are better reasons
    than an exception, by layer name.
    """

    def passing(base: list[Layer], layers: list[Layer]) -> list[Layer]:
        reason = try_cut(model, groups, [*base, *layers], example)
        if reason is None:
            return layers
        if len(layers) == 1:
            groups.failed = True
            known = (
                hints.get(layers[0].name) or _moving(model, layers[0]) or _computed(model, layers[0], reason, example)
            )
            groups.pinned.append((layers[0].name, known or reason))
            return []
        # Those known to pass are cut along: two widths may each pass alone and fail together (one number for both).
        half = len(layers) // 2
        first = passing(base, layers[:half])
        return first + passing([*base, *first], layers[half:])

    passed = passing([], list(groups.layers))
    groups.layers = tuple(la for la in groups.layers if la in passed)


def try_cut(model: nn.Module, groups: Groups, layers: Sequence[Layer], example: Any) -> str | None:
    """Why these layers cannot be cut together, or None; then ``groups`` knows the numbers that have to follow."""
    part = Groups(layers, model=model)
    try:
        _, remembered = cut_copy(model, part, random_masks(layers), example)
    except Exception as error:
        return _reason(error)
    groups.remembered = tuple(dict.fromkeys((*groups.remembered, *remembered)))
    return None


def note_blind_proof(model: nn.Module, groups: Groups, example: Any) -> None:
    """Say so where the result is integers and nothing they were chosen from is as large in the smaller model."""
    part = Groups(groups.layers, model=model)
    part.remembered = groups.remembered
    large, small = (run(m, example) for m in (model, cut_copy(model, part, random_masks(groups.layers), example)[0]))
    if large.exact and not any(a.shape == b.shape for a, b in zip(large.choices, small.choices, strict=False)):
        count = sum(leaf.numel() for leaf in large)
        groups.notes.append(
            f"the result is integers: the proof compares {count} of them, which may not show every difference"
        )


def random_masks(layers: Sequence[Layer]) -> Masks:
    """About half of every width, unequal in layers of one width, so that nothing relies on equal widths."""
    rng = np.random.default_rng(0)
    masks = {}
    counts: dict[int, list[int]] = {}
    for layer in layers:
        # Every width of 6 keeps another number: an equal number would hide code that has one name for two widths.
        left = counts.setdefault(layer.width, [])
        if not left:
            middle = range(max(1, layer.width // 3), max(2, 2 * layer.width // 3 + 1))
            rest = [n for n in range(2, layer.width) if n not in middle]
            left += [*rng.permutation(rest).tolist(), *rng.permutation(middle).tolist()]
        mask = np.zeros(layer.width, np.bool_)
        mask[rng.permutation(layer.width)[: left.pop()]] = True
        masks[layer.name] = mask
    return masks


def _moving(model: nn.Module, layer: Layer) -> str | None:
    """A weight of the layer under a spectral norm in training mode: torch's own modules read it once or several times a
    call, as it happens, and each reading changes it."""
    for strip in layer.strips:
        path, _, leaf = strip.tensor.rpartition(".")
        holder = model.get_submodule(path)
        if isinstance(holder, ParametrizationList) and any(isinstance(p, _SpectralNorm) and p.training for p in holder):
            name = strip.tensor.replace("parametrizations.", "").removesuffix(f".{leaf}")
            return (
                f"{name} is under a spectral norm, which changes at each reading while it trains. Discover after "
                "model.eval(), or take the norm off with torch.nn.utils.parametrize.remove_parametrizations"
            )
    return None


def _computed(model: nn.Module, layer: Layer, reason: str, example: Any) -> str | None:
    """Where the result changes because code computes a number from the width."""
    if "changes the result" not in reason:
        return None
    number = computed_number(model, Groups([layer], model=model), random_masks([layer]), example)
    return f"{reason}, as {number}" if number else None


def _reason(error: Exception) -> str:
    if isinstance(error, Differs):
        return f"cutting it {error.effect}"
    return f"once narrower, {type(error).__name__} at {user_line(error)}: {error}"
