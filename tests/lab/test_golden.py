"""Golden losses: every recipe, made tiny, goes through the same losses as it always did.

A change that should not alter numbers must not. ``python -m tests.lab.test_golden`` writes the files again, for a
change that should; say why in the commit. Numbers are of double precision: other processors round otherwise, and what
is the last digit of single precision in the first epoch is the third one in the thirtieth.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leanrnn.lab import RECIPES, Config
from leanrnn.lab.demo.demo import CONFIGS
from tests.support.tiny import WORDS, epochs, go

GOLDEN = Path(__file__).parent / "golden"
LANGUAGE = {name: recipe.config for name, recipe in RECIPES.items() if recipe.task == "language"}
ALL = {**LANGUAGE, **{f"demo-{n}": c for n, c in CONFIGS.items()}}
SAME = 12
"""Epochs over which processors agree. At a constant rate the last digits of double precision are the third one after
fourteen, as the recipe of the large model shows; after that a run can only be compared as a whole."""
SIZES = {"embedding": 12, "widths": (16, 14), "batch": 4, "window": 5, "vocabulary": WORDS, "init": 0.4, "rate": 0.3}


def tiny(name: str) -> Config:
    """The recipe on a small scale: all that it does, with few units and words, and a penalty that acts in few steps."""
    config = ALL[name]
    sizes = {**SIZES, "keep_widths": (10, 9)} if name.endswith("-pruned") else SIZES
    if config.cell != "lstm":  # two epochs of the same loop: one at the full rate, one after it
        sizes = sizes | {"epochs": 2, "constant": 1, "penalised": min(config.penalised, 1)}
    if config.cell == "rhn":
        sizes = sizes | {"widths": (12,), "depth": min(config.depth, 3)}
    if config.tied:
        sizes = sizes | {"embedding": sizes["widths"][-1]}
    strength = min(10 * config.strength, 0.015)
    penalty = {"strength": strength, "compact": min(config.compact, 20)} if config.sparse else {}
    return replace(config, **sizes, **penalty, group_threshold=10 * config.group_threshold)


def losses(name: str, folder: Path) -> list[float]:
    """Perplexity of the validation text after every epoch."""
    recipe = RECIPES.get(name)
    more, before = {}, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        if recipe is not None and recipe.start is not None:
            go(folder / "start", replace(tiny(recipe.start), epochs=3))
            more["start"] = folder / "start"
        return [event.valid for event in epochs(go(folder / "run", tiny(name), **more))]
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("name", ALL)
def test_losses_are_what_they_were(name, tmp_path):
    wanted, found = json.loads((GOLDEN / f"{name}.json").read_text()), losses(name, tmp_path)
    assert found[:SAME] == pytest.approx(wanted[:SAME], rel=1e-4)
    assert found[SAME:] == pytest.approx(wanted[SAME:], rel=0.05)


def test_there_is_no_golden_file_too_many():
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(ALL)


if __name__ == "__main__":
    for each in sys.argv[1:] or ALL:
        with tempfile.TemporaryDirectory() as place:
            found = [float(f"{value:.6g}") for value in losses(each, Path(place))]
        (GOLDEN / f"{each}.json").write_text(json.dumps(found) + "\n")
        print(each, *(f"{value:.2f}" for value in (found[0], found[len(found) // 2], found[-1])))
