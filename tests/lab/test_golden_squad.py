"""Golden losses of question answering, as in ``test_golden.py``: tiny, in double precision.

``python -m tests.lab.test_golden_squad`` writes the files again, for a change that should alter numbers.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leanrnn.lab import RECIPES
from leanrnn.lab.events import Answered
from leanrnn.lab.runs import Run
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import read
from leanrnn.lab.squad.loop import train
from tests.support.asked import TINY, write_squad

GOLDEN = Path(__file__).parent / "golden" / "squad"
NAMES = [name for name, recipe in RECIPES.items() if recipe.task == "squad"]


def tiny(name: str) -> SquadConfig:
    """The recipe on a small scale, with a penalty that acts in few steps."""
    sizes = {key: getattr(TINY, key) for key in ("width", "batch", "rate", "average", "word_count", "character_count")}
    config = replace(RECIPES[name].config, **sizes, steps=40, evaluate=20, keep_characters=1.0)
    if not config.sparse:
        return config
    ramp, compact = min(config.ramp, 5), min(config.compact, 10)
    sooner = {"ramp": ramp, "compact": compact, "penalised": min(config.penalised, 30), "strength": 0.01}
    return replace(config, **sooner, group_threshold=3 * config.group_threshold)


def losses(name: str, folder: Path) -> list[float]:
    """Of the training questions, every interval."""
    data = read(TINY, write_squad(folder / "data"))
    start, before = RECIPES[name].start, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found: list[float] = []
        for part, config in {"start": tiny(start) if start else None, "run": tiny(name)}.items():
            if config is not None:
                more = {"start": folder / "start"} if start and part == "run" else {}
                with Run.open(folder / part, {"config": config.to_json()}) as run:
                    events = list(train(config, data, run, **more))
                found = [event.loss for event in events if isinstance(event, Answered)]
        return found
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_what_they_were(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LEANRNN_CACHE", str(tmp_path / "cache"))
    wanted = json.loads((GOLDEN / f"{name}.json").read_text())
    assert losses(name, tmp_path) == pytest.approx(wanted, rel=1e-4)


def test_there_is_no_golden_file_too_many():
    assert {path.stem for path in GOLDEN.iterdir()} == set(NAMES)


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as place:
            values = [float(f"{value:.6g}") for value in losses(each, Path(place))]
        (GOLDEN / f"{each}.json").write_text(json.dumps(values) + "\n")
        print(each, *values)
