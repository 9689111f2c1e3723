"""What commands print: tables of plain columns, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["print_json", "print_table"]


def print_json(data: Any) -> None:
    """Plain data on standard output, for other programs."""
    print(json.dumps(data, indent=1))


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as what is in them. ::

    print_table([("name", "value"), ("weights", "1,244,700")])
    """
    lines = list(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
