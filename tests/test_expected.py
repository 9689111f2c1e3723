"""What ``leanrnn ls`` tells to expect is what was measured."""

import json
from pathlib import Path

from leanrnn.recipes import RECIPES
from leanrnn.recipes.expected import MEASURED, PUBLISHED, expected

RESULTS = Path(__file__).parents[1] / "results"


def _runs() -> dict[str, dict]:
    """Runs of a recipe as it is, by its name."""
    found = {}
    for path in RESULTS.glob("ptb_*.json"):
        for run in json.loads(path.read_text()).get("runs", {}).values():
            words = run["command"].split()
            if len(words) == 7:  # leanrnn train RECIPE --out FOLDER --threads N, and nothing else
                found[words[2]] = run
    return found


def test_figures_are_those_of_the_results():
    runs = _runs()
    assert runs.keys() == MEASURED.keys()
    for name, run in runs.items():
        told = MEASURED[name]
        assert told.startswith(f"{run['valid']:.1f} / {run['test']:.1f}")
        if "layers" in told:
            assert f"layers {' + '.join(map(str, run['widths']))}," in told


def test_every_name_is_one_of_a_recipe():
    assert MEASURED.keys() | PUBLISHED.keys() <= RECIPES.keys()
    assert expected("ptb-lstm-small") == "119.2 / 114.3; published 121.4 / 115.9"
    assert expected("text") == ""
