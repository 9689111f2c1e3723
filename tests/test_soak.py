"""Random architectures are discovered, zeroed by hand, shrunk and compared; benchmarks/soak.py runs thousands."""

from __future__ import annotations

import random

import pytest
from architectures import Architecture, architectures, build
from hypothesis import given, settings
from hypothesis import strategies as st
from soaking import examine


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_random_architectures_by_seed(start: int) -> None:
    cut = 0
    for seed in range(start, start + 25):
        rng = random.Random(seed)
        outcome = examine(build(rng), rng, thorough=False)
        assert (outcome.faults, outcome.dropped) == ([], []), f"seed {seed}"
        cut += outcome.cut
    assert cut > 25, "next to nothing was offered, so next to nothing was compared"


@settings(max_examples=60)
@given(architectures(), st.randoms(use_true_random=False))
def test_random_architectures_by_hypothesis(built: Architecture, rng: random.Random) -> None:
    outcome = examine(built, rng, thorough=False)
    assert (outcome.faults, outcome.dropped) == ([], [])
