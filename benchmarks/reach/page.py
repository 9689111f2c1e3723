"""What docs/reach.md says of the answers: a table, and why units stay where they stay."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.common import DOCS, ROOT, between_marks, table
from benchmarks.zoo import ZOO

PAGE = DOCS / "reach.md"
KINDS = {"onnx": "not exported", "lengths": "other lengths", "int8": "int8"}


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
    told = f"{name:26}{answer['result']:9}{_can_go(answer):>14}  {_seconds(answer):>7}"
    return f"{told}  {_file(answer):24}  {answer.get('why', '')}".rstrip()


def _file(answer: dict[str, Any]) -> str:
    """What became of the file, for a terminal."""
    words = zip(("exported", "lengths", "int8"), _cells(answer.get("file")), strict=True)
    return ", ".join(f"{kind}: {word}" for kind, word in words if word)


def _seconds(answer: dict[str, Any]) -> str:
    return f"{answer['seconds']:.1f} s" if "seconds" in answer else ""


def _can_go(answer: dict[str, Any]) -> str:
    return f"{answer['removable']} of {answer['units']}" if "units" in answer else ""


def _weights(answer: dict[str, Any]) -> str:
    return "{:,} → {:,}".format(*answer["weights"]) if "weights" in answer else ""


def printed(models: dict[str, Any]) -> str:
    """The table as text for a terminal."""
    rows = [("model", "result", "units that can go", "weights, half of them gone", "file")]
    rows += [
        (name, answer["result"], _can_go(answer), _weights(answer), _file(answer)) for name, answer in models.items()
    ]
    sizes = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(text.ljust(size) for text, size in zip(row, sizes, strict=True)).rstrip() for row in rows
    )


def page_text(result: dict[str, Any]) -> str:
    """What stands between the marks of docs/reach.md."""
    models = result["models"]
    head = ["model", "what is special", "result", "units that can go", "weights, half of them gone"]
    files = {name: answer["file"] for name, answer in models.items() if "file" in answer}
    head += ["exported", "at other lengths", "int8"] if files else []
    rows = [_row(name, answer) + (_cells(answer.get("file")) if files else []) for name, answer in models.items()]
    python, torch = result["environment"]["python"], result["environment"]["torch"]
    ran = f"`{result['command']}`, Python {python}, torch {torch}."
    parts = [_summary(models), *([_exported(files)] if files else []), table(head, rows), ran]
    parts += ["### What stays, and why", _held(models)]
    return "\n\n".join(parts + (["### What is not in a file, and why", _missing(files)] if files else []))


def _row(name: str, answer: dict[str, Any]) -> list[str]:
    entry = ZOO[name]
    what = f"`{name}`<br>{entry.model}<br>{entry.package} {answer.get('version', '')}"
    verdict = answer["result"] if answer["result"] in ("exact", "refused") else f"**{answer['result']}**"
    return [what, entry.special, verdict, _can_go(answer), _weights(answer)]


def _cells(file: dict[str, Any] | None) -> list[str]:
    """What became of the file: written, right at other lengths, in eight bits."""
    if file is None:
        return ["", "", ""]
    if not file["written"]:
        return ["**raw error**" if "raw" in file else "no", "", ""]
    bits = "no" if file["int8"] is None else f"yes, {file['int8']:.1%}"
    return ["yes", _lengths(file), "**raw error**" if "raw" in file else bits]


def _lengths(file: dict[str, Any]) -> str:
    """Whether the file takes every length that the model takes."""
    if "lengths" in file["why"]:
        return "**WRONG**"
    if not file["equal"] and not file["fixed"]:
        return "the model has one"
    return "yes" if not file["fixed"] else f"{', '.join(file['equal']) or 'no'}"


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


def _exported(files: dict[str, Any]) -> str:
    written = [file for file in files.values() if file["written"]]
    words = [_lengths(file) for file in written]
    whole, wrong = sum(word in ("yes", "the model has one") for word in words), words.count("**WRONG**")
    bits = sum(file["int8"] is not None for file in written)
    return (
        f"Of {len(files)} exact models, {len(written)} were exported after the cut ({len(written) / len(files):.0%}). "
        f"{whole} of the files take every length that the model takes, {len(written) - whole - wrong} have one fixed, "
        f"{wrong} are wrong at one; {bits} were written in eight bits."
    )


def _missing(files: dict[str, Any]) -> str:
    lines = []
    for name, file in files.items():
        lines += [f"- `{name}`, {KINDS[kind]}: {text}" for kind, text in file["why"].items()]
        if fixed := file.get("fixed"):
            lines.append(f"- `{name}`, fixed: {', '.join(fixed)}")
    return "\n".join(lines) or "Nothing."


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
