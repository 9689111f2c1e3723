"""Docstrings, written for a terminal, as Markdown: code in fences, names in code letters."""

from __future__ import annotations

import re

__all__ = ["markdown"]

ROLE = re.compile(r":\w+:`(?:~(?:\w+\.)*)?([^`]+)`")
DIRECTIVE = re.compile(r"^\.\. code-block:: (\w+)\n", re.MULTILINE)
LITERAL = re.compile(r" ?::\n+((?:(?!\n\n(?! )).)+)", re.DOTALL)


def markdown(text: str) -> str:
    """::

    markdown("See :func:`save`. ::\\n\\n    save(small)")  # See `save`. And the call in a fence.
    """
    text = ROLE.sub(r"`\1`", text)
    text = DIRECTIVE.sub(r"::\1::\n", text)  # not the end of a sentence, so that the next line leaves it alone
    text = LITERAL.sub(lambda match: "\n\n" + _fenced(match[1], "python"), text)
    return re.sub(r"::(\w+)\n\n```python", r"```\1", text)


def _fenced(code: str, language: str) -> str:
    lines = code.strip("\n").split("\n")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join([f"```{language}", *(line[indent:].rstrip() for line in lines), "```"])
