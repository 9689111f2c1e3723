"""What the site shows of docstrings; loaded by mkdocstrings, see mkdocs.yml."""

from __future__ import annotations

from typing import Any

import griffe

from tools.markdown import markdown

__all__ = ["Docstrings"]


class Docstrings(griffe.Extension):
    """Changes every docstring that the site shows."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Asked for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
