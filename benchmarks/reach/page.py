"""What docs/reach.md says of the answers: a table, and why units stay where they stay."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.common import DOCS, ROOT, between_marks, table
from benchmarks.zoo import ZOO

PAGE = DOCS / "reach.md"


def short(text: str) -> str:
    """Paths as seen from the folder of their package, in one line."""
    text = text.replace(f"{ROOT}/", "")
    text = re.sub(r"[^\s\"'(]*/(?:site-packages|python3\.\d+)/", "", text)
    return " ".join(re.sub(r"(?<![\w.])/[^\s\"':]*/", "", text).split())


def explained(name: str, answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Of a model that keeps some of its units: the notes of its entry that fit its pins, and the pins no note fits."""
    if answer["result"] == "ERROR" or (answer["removable"] == answer["units"] and answer["result"] != "refused"):
        return [], []
    pins = [f"{width}: {reason}" for width, reason in answer["pinned"]]
    holds = ZOO[name].holds
    notes = [f"{hold.kind}: {hold.why}" for hold in holds if any(hold.pin in pin for pin in pins)]
    return notes, [pin for pin in pins if not any(hold.pin in pin for hold in holds)]


def line(name: str, answer: dict[str, Any]) -> str:
    """A model in a line, while it runs."""
    return (
        f"{name:26}{answer['result']:9}{_can_go(answer):>14}  {_seconds(answer):>7}  {answer.get('why', '')}".rstrip()
    )


def _seconds(answer: dict[str, Any]) -> str:
    return f"{answer['seconds']:.1f} s" if "seconds" in answer else ""


def _can_go(answer: dict[str, Any]) -> str:
    return f"{answer['removable']} of {answer['units']}" if "units" in answer else ""


def _weights(answer: dict[str, Any]) -> str:
    return "{:,} → {:,}".format(*answer["weights"]) if "weights" in answer else ""


def printed(models: dict[str, Any]) -> str:
    """The table as text for a terminal."""
    rows = [("model", "result", "units that can go", "weights, half of them gone")]
    rows += [(name, answer["result"], _can_go(answer), _weights(answer)) for name, answer in models.items()]
    sizes = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        "  ".join(text.ljust(size) for text, size in zip(row, sizes, strict=True)).rstrip() for row in rows
    )


def page_text(result: dict[str, Any]) -> str:
    """What stands between the marks of docs/reach.md."""
    models = result["models"]
    head = ["model", "what is special", "result", "units that can go", "weights, half of them gone"]
    rows = [_row(name, models[name]) for name in models]
    python, torch = result["environment"]["python"], result["environment"]["torch"]
    ran = f"`{result['command']}`, Python {python}, torch {torch}."
    return "\n\n".join([_summary(models), table(head, rows), ran, "### What stays, and why", _held(models)])


def _row(name: str, answer: dict[str, Any]) -> list[str]:
    entry = ZOO[name]
    what = f"`{name}`<br>{entry.model}<br>{entry.package} {answer.get('version', '')}"
    verdict = answer["result"] if answer["result"] in ("exact", "refused") else f"**{answer['result']}**"
    return [what, entry.special, verdict, _can_go(answer), _weights(answer)]


def _summary(models: dict[str, Any]) -> str:
    verdicts = [answer["result"] for answer in models.values()]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("exact", "refused", "WRONG", "ERROR") if v in verdicts)
    counted = [answer for answer in models.values() if answer.get("units")]
    whole = sum(answer["removable"] == answer["units"] for answer in counted)
    units, gone = (sum(answer[key] for answer in counted) for key in ("units", "removable"))
    share = sum(answer["removable"] / answer["units"] for answer in counted) / max(1, len(counted))
    return (
        f"{len(models)} models: {counts}. In {whole} all recurrent units can go; in the mean over models "
        f"{100 * share:.1f} % can, or {gone:,} of {units:,} units."
    )


def _held(models: dict[str, Any]) -> str:
    lines = []
    for name, answer in models.items():
        notes, open_pins = explained(name, answer)
        lines += [f"- `{name}`, {_can_go(answer)}. {note}" for note in notes]
        lines += [f"- `{name}`, {_can_go(answer)}. Not explained yet: {pin}" for pin in open_pins]
        if answer["result"] in ("ERROR", "WRONG"):
            lines.append(f"- `{name}`: {answer.get('why', 'outputs differ')}")
    return "\n".join(lines) or "Nothing."


def rewritten(page: str, result: dict[str, Any]) -> str:
    """The page with the tables of this result."""
    return between_marks(page, page_text(result))
