"""One HTML page, complete in itself, in which two exported language models go on with what one types."""

from __future__ import annotations

import base64
import gzip
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from leanrnn.deploy import metadata_of
from leanrnn.errors import ExportError
from leanrnn.lab.disk import write_whole
from leanrnn.lab.web.runtime import Runtime, fetch

__all__ = ["write_page"]

SOURCES = {
    "python": "the documentation that comes with Python",
    "ptb": "Penn Treebank, news of the 1980s",
    "text": "a text of somebody's own",
}
"""What a reader of the page may want to type like."""


def write_page(
    dense: str | os.PathLike[str],
    lean: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    prompt: str = "",
    runtime: Runtime | None = None,
) -> Path:
    """Write a page that completes text with the lean model, and compares it with the dense one. ::

        write_page("dense.onnx", "lean.int8.onnx", "complete.html", prompt="this method returns ")

    Both are language models that ``leanrnn export RUN`` wrote, of the same words. The page opens from disk and asks
    for nothing: models and runtime are inside.

    Arguments:
        prompt: what stands in the text box at first.
        runtime: what runs the models; fetched if not given.
    """
    files = {"dense": Path(dense), "lean": Path(lean)}
    about = {name: metadata_of(path) for name, path in files.items()}
    texts = {name: _text(files[name], each) for name, each in about.items()}
    if texts["dense"] != texts["lean"]:
        raise ExportError(f"{dense} and {lean} know different words. Give two models of the same text.")
    runtime = runtime or fetch()
    facts = {name: _facts(files[name], each) for name, each in about.items()}
    data = {"prompt": prompt, "runtime": runtime.name, **texts["lean"], "models": facts}
    packed = {"runtime-script": runtime.script, "runtime-wasm": runtime.wasm}
    packed |= {name: gzip.compress(path.read_bytes(), mtime=0) for name, path in files.items()}
    target = Path(out)
    write_whole(target, _filled(data, packed))
    return target


def _text(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What tokens are, and which there are."""
    try:
        config, words = about["about"]["config"], about["about"]["words"]
        kind = "ptb" if config["corpus"] == "ptb" else config["tokens"]
        return {"kind": kind, "source": SOURCES[config["corpus"]], "words": words}
    except KeyError as error:
        raise ExportError(
            f"{path} is not of a language model that leanrnn has trained. Write one with leanrnn export RUN."
        ) from error


def _facts(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    if len(about["inputs"]) == 1:
        raise ExportError(
            f"{path} takes no state, so it cannot go on from one token. Write it with leanrnn export RUN."
        )
    widths = [width for layer in about["widths"].values() for width in layer]
    return {"bytes": path.stat().st_size, "weights": about["weights"], "widths": widths}


def _filled(data: dict[str, Any], packed: dict[str, bytes]) -> str:
    """The page's parts, each put into its place."""
    home = resources.files(__package__)
    names = ("complete.html", "complete.css", "models.js", "complete.js")
    page, style, *scripts = (home.joinpath(name).read_text(encoding="utf-8") for name in names)
    blocks = [
        f'<script type="application/gzip" id="{name}">{base64.b64encode(content).decode()}</script>'
        for name, content in packed.items()
    ]
    # A word of the vocabulary must not end the element it stands in.
    inlined = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    for place, text in {"css": style, "js": "\n".join(scripts), "data": inlined, "packed": "\n".join(blocks)}.items():
        page = page.replace(f"{{{{{place}}}}}", text, 1)
    return page
