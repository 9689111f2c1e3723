"""What a sweep tries: a range or a choice for every setting, as it is written on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leanrnn.errors import ConfigError

__all__ = ["Axis", "axes", "valued"]

DEFAULT: Mapping[str, str] = {"warm_up": "0.05..0.35", "shrink": "0.15..0.5"}
"""Of every recipe; besides them half to twice its learning rate."""


@dataclass(frozen=True)
class Axis:
    """A setting and the values it may have. ::

    Axis.parse("rate=0.5..2:log").suggest(trial)
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    values: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Axis:
        """Of ``NAME=LOW..HIGH``, with ``:log`` behind it if it is, or ``NAME=A|B|C``."""
        name, sign, said = (part.strip() for part in text.partition("="))
        if sign and name and "|" in said:
            return cls(name, values=tuple(valued(part) for part in said.split("|")))
        span, colon, kind = said.partition(":")
        low, dots, high = span.partition("..")
        try:
            ends = [float(low), float(high)]
        except ValueError:
            ends = []
        if not (sign and name and dots and ends and ends[0] < ends[1]) or (colon and kind != "log"):
            raise ConfigError(f"{text!r} is no range. Give NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A|B|C.")
        if colon and ends[0] <= 0:
            raise ConfigError(f"{text!r} begins at {low}. A range with :log has to begin above 0.")
        whole = all(part.strip().lstrip("-").isdigit() for part in (low, high))
        return cls(name, ends[0], ends[1], bool(colon), whole)

    def suggest(self, trial: Any) -> Any:
        """A value from a trial of Optuna; one that has been suggested stays."""
        if self.values:
            return trial.suggest_categorical(self.name, self.values)
        if self.whole:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)


def axes(texts: Sequence[str], rate: float | None = None) -> tuple[Axis, ...]:
    """The axes that were given; without any those of a recipe with this learning rate. ::

    axes(["rate=0.5..2:log", "keep=0.6..1.0"])
    """
    if not texts and rate is not None:
        texts = [f"rate={rate / 2:g}..{rate * 2:g}:log", *(f"{name}={said}" for name, said in DEFAULT.items())]
    found = tuple(Axis.parse(text) for text in texts)
    if not found:
        raise ConfigError("there is nothing to try. Say what with --search NAME=LOW..HIGH.")
    names = [axis.name for axis in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{twice[0]} is in --search twice. Give one range for it.")
    return found


def valued(text: str) -> Any:
    """A value as it is written: a whole number, a number, true or false, or a word."""
    said = text.strip()
    if said in ("true", "false"):
        return said == "true"
    for kind in (int, float):
        try:
            return kind(said)
        except ValueError:
            continue
    return said
