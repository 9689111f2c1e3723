"""What a sparsifier writes down of itself and reads again: plain data with a format number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from leanrnn.errors import GroupsError

__all__ = ["FORMAT", "check_alike", "restore_", "saved", "upgraded"]

FORMAT = 3
"""3: there is more than one way to sparsify. 2: penalty and strength have a state each. 1: both had a name or number
only, beside sizes of groups."""


class Part(Protocol):
    """A penalty or a strength."""

    def state_dict(self) -> dict[str, Any]:
        """What changed since construction."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


def saved(part: Part) -> dict[str, Any]:
    """The state of a part with its kind: ``saved(L1(groups)) == {"kind": "L1", "state": {}}``."""
    return {"kind": type(part).__name__, "state": part.state_dict()}


def restore_(part: Part, state: Mapping[str, Any]) -> None:
    """Give a part the state that :func:`saved` made of one of its kind; one of another kind starts afresh."""
    if state["kind"] == type(part).__name__:
        part.load_state_dict(state["state"])


def upgraded(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state of any format in today's."""
    new = dict(state)
    if new.get("format") == 1:
        new.pop("sizes", None)
        new["penalty"] = {"kind": state.get("penalty"), "state": {}}
        new |= {"strength": {"kind": "Schedule", "state": {}}, "format": 2}
    return new | {"way": "penalty", "format": 3} if new.get("format") == 2 else new


def check_alike(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse a state that does not belong to a sparsifier whose own state is ``own``."""
    if {"format", "way", "steps", "every", "widths"} - state.keys() or state["format"] > FORMAT:
        raise GroupsError("this is not the state of a sparsifier of this version. Use what state_dict() returned.")
    if state["way"] != own["way"] or own.keys() - state.keys():
        raise GroupsError(f"the state is of a sparsifier with a {state['way']}, this one has a {own['way']}.")
    if state["widths"] != own["widths"]:
        raise GroupsError(
            f"the state is of widths {state['widths']}, the model has {own['widths']}. "
            "Rebuild the model at the widths it was saved with (leanrnn.load), then load the state."
        )
