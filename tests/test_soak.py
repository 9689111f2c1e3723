"""Random architectures are discovered, zeroed by hand, shrunk and compared; benchmarks/soak.py runs thousands."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from architectures import Architecture, architectures, build
from hypothesis import given, settings
from hypothesis import strategies as st
from soaking import examine
from test_benchmarks import run


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


def test_soak_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = run("soak.py", tmp_path / "soak.json", "--count", "2")
    second = run("soak.py", tmp_path / "soak.json", "--count", "4")
    assert (first["models"], second["models"]) == (2, 4)
    assert second["layers_cut"] > first["layers_cut"] and second["mismatches"] == []
