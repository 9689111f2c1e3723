"""What an entry says of a model, and the list of all entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

Built = tuple[nn.Module, tuple[Any, ...]]
"""A model in evaluation mode and the arguments of its forward."""
Kind = Literal["Mathematics", "Interface", "The model's code", "Missing rule", "Not Python"]
"""Why a width stays, as docs/reach.md explains it."""


@dataclass(frozen=True)
class Hold:
    """Why some units of a model stay, in words of a reader of its source."""

    pin: str
    """Part of what leanrnn says, ``name: reason``: a note counts only for the pins that contain it."""
    kind: Kind
    why: str


@dataclass(frozen=True)
class Entry:
    """A published model: where it comes from, what is special about it, how it is built."""

    name: str
    package: str
    model: str
    special: str
    build: Callable[[], Built]
    states: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Where the hidden units of home-made cells are: shell-style patterns of matrices, with the axis along which every
    unit has that many positions. torch's own layers and cells are counted without being named."""
    holds: tuple[Hold, ...] = ()
    older: bool = False
    """Whether it needs the older packages of older-requirements.txt."""


entered: list[Entry] = []


def entry(package: str, model: str, special: str, **more: Any) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Put the function below into the list, under its own name."""

    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        entered.append(Entry(build.__name__, package, model, special, build, **more))
        return build

    return enter
