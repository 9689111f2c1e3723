"""What a recipe says of a model, and the list of all recipes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

Built = tuple[nn.Module, tuple[Any, ...]]
"""A model in evaluation mode and the arguments of its forward."""
Kind = Literal["mathematics", "the result", "the model's code", "missing rule", "not a Python model"]
"""Why a width stays: removing a unit would change the others, or would change what the caller gets; the code insists
on the old number; leanrnn could do it and does not; there is nothing leanrnn could read."""


@dataclass(frozen=True)
class Hold:
    """Why some units of a model stay, in words of a reader of its source."""

    pin: str
    """Part of what leanrnn says, ``name: reason``: a note counts only for the pins that contain it."""
    kind: Kind
    why: str


@dataclass(frozen=True)
class Recipe:
    """A published model: where it comes from, what is special about it, how it is built."""

    name: str
    package: str
    model: str
    special: str
    build: Callable[[], Built]
    states: tuple[str, ...] = ()
    """Home-made cells: shell-style patterns of the matrices that read the state, one column for each unit. torch's own
    layers and cells are counted without being named."""
    holds: tuple[Hold, ...] = ()
    older: bool = False
    """Whether it needs the older packages of zoo-older-requirements.txt."""

    @property
    def field(self) -> str:
        """The field it is from, as its file is called."""
        return self.build.__module__.rpartition(".")[2]


RECIPES: dict[str, Recipe] = {}


def recipe(package: str, model: str, special: str, **more: Any) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Put the function below into the list, under its own name."""

    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        RECIPES[build.__name__] = Recipe(build.__name__, package, model, special, build, **more)
        return build

    return enter
