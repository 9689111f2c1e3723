"""A text that can be learned in a second, and a run on it that loses components, for tests of runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leanrnn.lab import Config
from leanrnn.lab.events import Epoch
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.text import Text
from leanrnn.lab.runs import Run

PARAGRAPH = "One day the small model met a large model and said that it knew the same words, only faster. " * 6
SMALL = "--vocabulary 40 --held-out 0.2 --embedding 8 --widths 10 9 --epochs 2 --batch 4 --window 6 --threads 1".split()
"""Options for ``leanrnn train text --data book.txt`` that take a second."""
WORDS = 20
SPARSE = Config(
    embedding=12, widths=(16, 14), window=5, batch=4, epochs=4, keep=0.9, rate=0.5, constant=2, strength=0.025,
    init=0.4, compact=15, group_threshold=0.8, mode="gradient", scope="all", penalised=3, follow=True, seed=3,
)  # fmt: skip
DENSE = replace(SPARSE, strength=0.0, penalised=0)
BUDGET = replace(DENSE, budget="mult_adds=50%", warm_up=0.25, shrink=0.5, mode="loss", drop_recurrent=0.2, compact=0)


def tiny_text() -> Text:
    """Words that mostly count upwards."""
    generator = torch.Generator().manual_seed(0)

    def words(count: int) -> Tensor:
        return (torch.randint(1, 3, (count,), generator=generator)).cumsum(0) % WORDS

    return Text(words(1500), words(400), words(300), tuple(map(str, range(WORDS))))


def write_book(folder: Path) -> None:
    """Somebody's own text, ``book.txt``."""
    (folder / "book.txt").write_text("\n\n".join(f"{PARAGRAPH} {i}" for i in range(30)))


def settings(config: Config) -> dict[str, Any]:
    return {"config": config.to_json()}


def go(folder: Path, config: Config = SPARSE, steps: int | None = None, **more: Any) -> list[Any]:
    """Train until the end, or for so many steps; what happened."""
    left = [steps if steps is not None else -1]

    def stopped() -> bool:
        left[0] -= 1
        return left[0] == 0

    with Run.open(folder, settings(config)) as run:
        return list(train(config, tiny_text(), run, stopped=stopped, **more))


def epochs(events: list[Any]) -> list[Epoch]:
    return [event for event in events if isinstance(event, Epoch)]
