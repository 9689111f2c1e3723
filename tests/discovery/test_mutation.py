"""The comparison can fail: with one strip of one group left out or put in the wrong place, it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import leanrnn
import tests.support.families_heads  # noqa: F401  # registers more families
from leanrnn.errors import ShrinkError
from leanrnn.groups.groups import Groups, Layer, Strip
from leanrnn.running.compare import difference, run
from tests.discovery.test_families import cast
from tests.support.architectures import randomise_
from tests.support.families import FAMILIES
from tests.support.soaking import zeroed_by_hand

# Not among them: weight_normed, as torch's kernel reads beyond the end of a norm that is longer than its directions.
MUTATED = [
    "lstm_2", "gru_1", "projected", "raw_matmul", "peephole", "li_gru", "rhn", "residual_layers", "layer_norm",
    "batch_norm", "tied_embedding", "dot_attention", "head_attention", "conv1d_reads", "learned_scale",
]  # fmt: skip
WITH_BIAS = [
    "lstm_2",
    "gru_1",
    "raw_matmul",
    "peephole",
    "residual_layers",
    "batch_norm",
    "head_attention",
    "conv1d_reads",
]
"""Families in which a component has a value although its weights are zero, so that every reader has to be zero too."""


def prepared(name: str) -> tuple[nn.Module, Groups, dict[str, list[int]]]:
    """A model with random numbers everywhere, its groups, and every other component to be kept."""
    family = FAMILIES[name]()
    model, example = family.model.double().eval(), cast(family.example, torch.float64)
    randomise_(model)
    groups = leanrnn.discover(model, example)
    return model, groups, {layer.name: list(range(0, layer.width, 2)) for layer in groups}


def mutants(groups: Groups, change: Any) -> Iterator[tuple[Layer, Strip, Groups]]:
    """Groups in which ``change`` was done to one strip, for every strip in turn; None drops it."""
    for layer in groups:
        for strip in layer.strips:
            changed = [change(layer, s) if s is strip else s for s in layer.strips]
            wrong = replace(layer, strips=tuple(s for s in changed if s is not None))
            mutant = Groups([wrong if la is layer else la for la in groups], model=groups.model)
            mutant.example = groups.example
            yield layer, strip, mutant


def left_out(layer: Layer, strip: Strip) -> None:
    return None


def shifted(layer: Layer, strip: Strip) -> Strip:
    """Component k where component k + 1 should be: all shapes fit, and only numbers can tell."""
    return replace(strip, components=(strip.components + 1) % layer.width)


@pytest.mark.parametrize("change", [left_out, shifted])
@pytest.mark.parametrize("name", MUTATED)
def test_every_strip_is_needed_in_the_cut(name: str, change: Any) -> None:
    model, groups, keep = prepared(name)
    for layer, strip, mutant in mutants(groups, change):
        try:
            leanrnn.shrink(model, mutant, keep=keep)
        except ShrinkError:
            continue
        pytest.fail(f"{layer.name} without {strip.tensor} axis {strip.axis} went unnoticed")


@pytest.mark.parametrize("name", WITH_BIAS)
def test_every_reader_has_to_be_zero_and_no_maker(name: str) -> None:
    """Biases stay, as in training: what a component holds is not zero then, so one reader left over is seen.

    What makes a component may be anything once nobody reads it: leaving out such a strip is no mistake.
    """
    model, groups, keep = prepared(name)
    small = leanrnn.shrink(model, groups, keep=keep)
    for layer, strip, mutant in mutants(groups, left_out):
        if strip.role == "weight":
            weights = [replace(la, strips=tuple(s for s in la.strips if s.role == "weight")) for la in mutant]
            zeroed = zeroed_by_hand(model, Groups(weights), keep)
            apart = difference(run(zeroed, groups.example), run(small, groups.example))
            assert (apart > 1e-9) == strip.reader, f"{layer.name}: {strip.tensor} axis {strip.axis}: {apart}"
