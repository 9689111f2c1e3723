"""Random architectures are discovered, zeroed by hand, shrunk and compared; tools/soak.py runs thousands."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.architectures import Architecture, architectures, build
from tests.support.soaking import examine


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


def soak(out: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tools.soak", "--out", str(out), "--count", str(count)]
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=Path(__file__).parents[2])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_soak_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = soak(tmp_path / "soak.json", 2)
    second = soak(tmp_path / "soak.json", 4)
    assert (first["models"], second["models"]) == (2, 4)
    assert second["layers_cut"] > first["layers_cut"] and second["mismatches"] == []
