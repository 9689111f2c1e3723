"""The settings of a recipe as options in sections, so that a help of fifty can be read."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import field, make_dataclass, replace
from typing import Annotated, Any, get_type_hints

import tyro

from leanrnn.cli.parsing import hint

__all__ = ["SECTIONS", "joined", "sectioned"]

SECTIONS: Mapping[str, str] = {
    "reading": "corpus tokens vocabulary held_out question_tokens context_tokens word_count character_count",
    "model": "cell depth width embedding widths tied init keep_widths",
    "training": "epochs steps batch window rate schedule constant decay clip l2 average best evaluate judged seed "
    "precision",
    "dropout": "keep keep_characters drop_word drop_input drop_hidden drop_output drop_recurrent drop_factor follow",
    "shrinking": "budget warm_up shrink scope",
    "penalty": "strength mode penalty by_cost ramp penalised afterwards threshold everywhere group_threshold compact "
    "last_threshold",
    "teaching": "taught temperature",
}
"""The settings of all tasks, in the order of the help."""


def sectioned(command: type, settings: Any) -> Any:
    """A command that has, besides its own options, one for each of the settings, with their values as defaults. ::

    joined(settings, tyro.cli(sectioned(Train, settings)))
    """
    hints, told = get_type_hints(type(settings)), _documented(type(settings))
    sections: list[Any] = []
    for title, names in SECTIONS.items():
        fields: list[Any] = [
            (name, Annotated[hints[name], tyro.conf.arg(help=told[name], help_behavior_hint=hint)], value)
            for name, value in ((name, getattr(settings, name)) for name in names.split() if name in hints)
        ]
        if fields:
            kind: Any = make_dataclass(title, fields, frozen=True)
            sections.append((title, Annotated[kind, tyro.conf.OmitArgPrefixes], field(default=kind())))
    return make_dataclass(command.__name__, sections, bases=(command,), frozen=True)


def joined(settings: Any, command: Any) -> Any:
    """``settings`` with the values that the options of :func:`sectioned` were given."""
    found = [vars(getattr(command, title)) for title in SECTIONS if hasattr(command, title)]
    return replace(settings, **{name: value for section in found for name, value in section.items()})


def _documented(kind: type) -> dict[str, str]:
    """What stands under every field of a dataclass, or of one that it is derived from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                match below:
                    case ast.Expr(ast.Constant(str(text))):
                        found[statement.target.id] = " ".join(text.split())
    return found
