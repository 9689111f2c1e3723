"""What all tests share: one seed, one thread, one place for tolerances, and a reproducible hypothesis."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# The same examples on every run, so that a red run can be repeated; `explore` looks for new ones.
common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # models are built inside the examples
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, **common)
settings.register_profile("explore", **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

collect_ignore = ["browser", "frameworks"]
"""They need Chromium, or a framework; ``make test-browser`` and ``make integrations`` name what they run, and are not
stopped by this."""

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""How far a shrunk model may be from the zeroed one, relative to the largest number in its output."""


@pytest.fixture(autouse=True)
def fixed_seed():
    """Every test draws the same random numbers, whatever ran before it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
