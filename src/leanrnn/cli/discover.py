"""``leanrnn discover``: the groups of a user's own model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from leanrnn.cli.factory import build
from leanrnn.cli.parsing import MaybeText
from leanrnn.cli.printing import print_json

if TYPE_CHECKING:
    from leanrnn import Groups

__all__ = ["Discover"]

NEXT = """\
Which way is yours?
  trained model   shrink(model, groups, budget=...), then fine-tune with a Teacher
  from scratch    Sparsifier(groups, budget=..., steps=...) in your training loop
  no loop yet     leanrnn shrink {factory} --data ... --budget ...
  in any case     compare with a small model trained in the same way"""
NOTHING = """
Nothing in this model can shrink. `--explain NAME` says more about a pinned width."""


@dataclass(frozen=True)
class Discover:
    """Print the groups of your own model."""

    factory: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODULE:FUNCTION")]
    """Function that returns the model, or (model, example): package.module:function or path/to/file.py:function."""
    example: MaybeText = None
    """Inputs, if the function returns a model alone: "1,35:int64" for a tensor of that shape and type, several with ;
    between them, or MODULE:FUNCTION that returns them."""
    scope: Literal["recurrent", "all"] = "recurrent"
    """Which widths to offer: recurrent ones, or embedding and MLP widths too."""
    explain: MaybeText = None
    """Name of a layer, or of a pinned width, whose chain of operators to print."""
    json: bool = False
    """Print the groups as JSON."""

    def run(self) -> None:
        """Discover and print."""
        from leanrnn import discover

        model, example = build(self.factory, self.example)
        groups = discover(model, example, scope=self.scope)
        if self.json:
            print_json(json.loads(groups.to_json()))
        elif self.explain:
            print(groups.explain(self.explain))
        else:
            print(groups)
            print(f"{_share(groups)}{NEXT.format(factory=self.factory)}" if len(groups) else NOTHING)


def _share(groups: Groups) -> str:
    """How much of the model these layers are."""
    costs, least = groups.costs.mult_adds, dict.fromkeys(groups.names, 1)
    whole = costs.at(groups.widths)
    part = 1 - costs.at(least) / whole if whole else 0.0
    return f"\nOf {whole:,.0f} mult-adds for this example, at most {part:.1%} can go.\n"
