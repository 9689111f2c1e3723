"""What ``leanrnn ls`` tells to expect is what was measured."""

import json
import shlex
from pathlib import Path

import pytest

from leanrnn.lab import RECIPES, Config, Recipe
from leanrnn.lab.recipe import with_results

RESULTS = Path(__file__).parents[2] / "results"
MEASURED = {name: recipe.measured for name, recipe in RECIPES.items() if recipe.measured}


def _runs() -> dict[str, dict]:
    """Runs of a recipe by its name: as it is, or else but for its precision and for what leaves while training."""
    found = {}
    for path in RESULTS.glob("ptb_*.json"):
        for run in json.loads(path.read_text()).get("runs", {}).values():
            words = run["command"].replace(" --precision bfloat16", "").replace(" --compact 200", "").split()
            as_it_is = shlex.join(words) == run["command"]
            if len(words) == 7 and (as_it_is or words[2] not in found):  # leanrnn train RECIPE --out .. --threads ..
                found[words[2]] = run
    return found


def test_figures_are_those_of_the_results():
    runs = _runs()
    assert runs.keys() == {name for name in MEASURED if not name.startswith("squad")}
    for name, run in runs.items():
        told = MEASURED[name]
        assert told.startswith(f"{run['valid']:.1f} / {run['test']:.1f}")
        if "layers" in told:
            assert f"layers {' + '.join(map(str, run['widths']))}," in told


def test_figures_of_question_answering_too():
    runs = json.loads((RESULTS / "squad.json").read_text())["runs"]
    names = {"": "dense", "-iss": "iss", "-iss-finetune": "finetune", "-lean": "lean"}
    for recipe, name in names.items():
        run, told = runs[name], MEASURED[f"squad-bidaf{recipe}"]
        assert told.startswith(f"in 3000 of 10 000 steps exact match {run['exact']:.1f}, F1 {run['f1']:.1f}")
        six = [str(width) for key, width in run["widths"].items() if not key.startswith("contextual")]
        assert run["config"]["steps"] == 3000 and (name == "dense" or told.endswith(f"LSTMs {' + '.join(six)}"))


def test_a_result_stands_beside_its_recipe():
    assert RECIPES["ptb-lstm-small"].expected == "119.2 / 114.3; published 121.4 / 115.9"
    assert RECIPES["ptb-rhn"].expected == "published 67.9 / 65.4"
    assert RECIPES["ptb-gru-small"].expected == "126.9 / 121.9"
    assert RECIPES["text"].expected == ""
    with pytest.raises(KeyError, match="misspelled"):
        with_results({"one": Recipe(Config(), "a recipe")}, measured={"misspelled": "1 / 2"})
