"""What is trained: a text, a cell, widths to begin with, and how many times fewer mult-adds there may be in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch

import leanrnn
from leanrnn.lab import Config
from leanrnn.lab.language.model import LanguageModel, language_model
from leanrnn.lab.language.text import Text, read

__all__ = ["CASES", "Case", "Settings", "text_of"]

PYTHON = Config(corpus="python", vocabulary=2000, embedding=200, widths=(200, 200), window=35, epochs=12, constant=6,
                schedule="line")  # fmt: skip


class Settings(NamedTuple):
    """What is tuned, alike for every arm: learning rate and the part that dropout keeps; and the seed."""

    rate: float
    keep: float
    seed: int = 1


@dataclass(frozen=True)
class Case:
    """A model to make ``times`` smaller; once smaller is the dense model itself."""

    name: str
    times: float
    config: Config
    teacher: str
    """The case whose dense model, the best of its grid, is the teacher of this one."""

    @property
    def task(self) -> str:
        """What it is about, for tables: cell and, unless it is Python's documentation, text."""
        corpus = {"python": "", "ptb": ", Penn Treebank", "text": ", own text"}[self.config.corpus]
        return self.config.cell.upper() + corpus

    @property
    def rate(self) -> float:
        """The learning rate that tuning begins with; an RNN needs a smaller one than cells with gates."""
        return 0.125 if self.config.cell == "rnn" else 0.5

    @property
    def dense(self) -> str:
        """The case of the dense model."""
        return f"{self.name.rpartition('-')[0]}-1"

    @property
    def budget(self) -> leanrnn.Budget:
        """What the smaller model may cost."""
        return leanrnn.Budget(mult_adds=self.most * self.words_of_example)

    @property
    def most(self) -> float:
        """Mult-adds a word that are allowed."""
        return self.mult_adds(self.config.widths) / self.times

    def mult_adds(self, widths: Sequence[int]) -> float:
        """For one word, in the whole model but the lookup of its embedding."""
        groups = _groups(self.config)
        return groups.costs.mult_adds.at(dict(zip(groups.names, widths, strict=True))) / self.words_of_example

    def weights(self, widths: Sequence[int]) -> int:
        """Of the whole model."""
        groups = _groups(self.config)
        return int(groups.costs.weights.at(dict(zip(groups.names, widths, strict=True))))

    @property
    def words_of_example(self) -> int:
        """Words in one call on the example."""
        return example().numel()

    def uniform(self) -> tuple[int, ...]:
        """The largest part of all widths that is within the budget."""
        first = self.config.widths[0]
        parts = ([max(1, width * n // first) for width in self.config.widths] for n in range(first, 0, -1))
        return next(tuple(widths) for widths in parts if self.mult_adds(widths) <= self.most)

    def model(self, settings: Settings, widths: Sequence[int] = ()) -> LanguageModel:
        """A new one."""
        return language_model(self.config_of(settings, widths), self.config.vocabulary)

    def config_of(self, settings: Settings, widths: Sequence[int] = ()) -> Config:
        """The settings of a run in the words of the recipes."""
        tuned = replace(self.config, rate=settings.rate, keep=settings.keep, seed=settings.seed)
        if not widths:
            return tuned
        embedding = widths[-1] if tuned.tied else tuned.embedding
        return replace(tuned, widths=tuple(widths), embedding=embedding)


def example() -> torch.Tensor:
    """Words to discover a model on."""
    return torch.zeros(3, 2, dtype=torch.long)


@cache
def _groups(config: Config) -> leanrnn.Groups:
    return leanrnn.discover(language_model(config, config.vocabulary), example())


@cache
def text_of(config: Config) -> Text:
    """The text of a case, read once."""
    return read(config)


CASES = {
    f"{cell}-{times}": Case(f"{cell}-{times}", times, replace(PYTHON, cell=cell), "lstm-1")
    for cell, factors in {"lstm": (1, 2, 4, 8), "gru": (1, 2, 4), "rnn": (1, 2, 4)}.items()
    for times in factors
}
