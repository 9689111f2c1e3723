"""Text as word numbers: Penn Treebank, a user's own files, and the documentation that comes with Python."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from leanrnn.errors import DataError, RunError
from leanrnn.lab.language.config import Config

__all__ = ["Text", "check_long_enough", "read", "streams", "windows"]

PARTS = ("train", "valid", "test")
UNKNOWN, END = "<unk>", "<eos>"
CHECKSUMS = {
    "train": "f26c4b92c5fdc7b3f8c7cdcb991d8420",
    "valid": "aa0affc06ff7c36e977d7cd49e3839bf",
    "test": "8b80168b89c18661a38ef683c0dc3721",
}
"""MD5 of Penn Treebank in Mikolov's form, which published perplexities are of."""


@dataclass(frozen=True, eq=False)
class Text:
    """A training, a validation and a test text as token numbers, and the tokens by number."""

    train: Tensor
    valid: Tensor
    test: Tensor
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What a user should know about the data, a line each."""

    @property
    def digest(self) -> str:
        """Tells one text from another: the tokens and their numbers."""
        found = hashlib.sha256("\n".join(self.words).encode())
        for part in (self.train, self.valid, self.test):
            found.update(part.numpy().tobytes())
        return found.hexdigest()[:16]


def read(config: Config, folder: Path | None = None) -> Text:
    """The text a configuration asks for; ``folder`` (or the variable LEANRNN_DATA) says where it is. ::

    text = read(RECIPES["ptb-lstm-small"], Path("data"))
    """
    if config.corpus == "python":
        return _split(list(_documentation()), config, "the documentation of Python")
    place = folder or (Path(os.environ["LEANRNN_DATA"]) if os.environ.get("LEANRNN_DATA") else None)
    if place is None:
        raise DataError("no data was named. Give --data FOLDER, or set the variable LEANRNN_DATA.")
    if not place.exists():
        raise DataError(f"there is no {place}. Give the folder of the data with --data or LEANRNN_DATA.")
    return _penn_treebank(place) if config.corpus == "ptb" else _own(place, config)


def streams(tokens: Tensor, batch: int) -> Tensor:
    """The text as ``batch`` streams side by side, time first; what is left over is dropped. ::

    streams(torch.arange(7), 2)  # [[0, 3], [1, 4], [2, 5]]
    """
    length = len(tokens) // batch
    if length < 2:
        raise DataError(
            f"the text has {len(tokens)} tokens, too few for {batch} streams. Give more text or a smaller batch."
        )
    return tokens[: length * batch].view(batch, length).t().contiguous()


def windows(rows: Tensor, window: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of the streams and the tokens that follow each token; what is left over is dropped, as in the paper."""
    for start in range(0, (len(rows) - 1) // window * window, window):
        yield rows[start : start + window], rows[start + 1 : start + window + 1]


def check_long_enough(text: Text, config: Config) -> None:
    """Refuse a text whose streams have no whole window. ::

    check_long_enough(text, config)
    """
    names = {"train": "training", "valid": "validation", "test": "test"}
    for part, name in names.items():
        tokens: Tensor = getattr(text, part)
        if (length := len(tokens) // config.batch) <= config.window:
            raise RunError(
                f"the {name} text has {len(tokens)} tokens: each of {config.batch} streams is {length} long, no window "
                f"of {config.window} and one more. Give more text (or a larger held_out), a smaller batch or a smaller "
                "window."
            )


def _penn_treebank(place: Path) -> Text:
    """Words sorted by how frequent they are in the training text; every line ends with a word of its own."""
    homes = (place, place / "ptb", place / "simple-examples" / "data")
    home = next((each for each in homes if (each / "ptb.train.txt").is_file()), None)
    if home is None:
        raise DataError(
            f"there is no ptb.train.txt in {place}. Give the folder of ptb.train.txt, ptb.valid.txt and ptb.test.txt."
        )
    raw = {part: _text(home / f"ptb.{part}.txt") for part in PARTS}
    lines = {part: text.replace("\n", f" {END} ").split() for part, text in raw.items()}
    counts = Counter(lines["train"])
    words = sorted(counts, key=lambda word: (-counts[word], word))
    numbers = {word: i for i, word in enumerate(words)}
    for part in ("valid", "test"):
        if unknown := [word for word in dict.fromkeys(lines[part]) if word not in numbers]:
            raise DataError(
                f"{home / f'ptb.{part}.txt'} has {len(unknown)} words that ptb.train.txt has not, such as "
                f"{unknown[0]!r}. Take the three files from one place, or train the recipe text on them."
            )
    others = [
        part for part in PARTS if hashlib.md5(raw[part].encode(), usedforsecurity=False).hexdigest() != CHECKSUMS[part]
    ]
    note = f"{', '.join(f'ptb.{part}.txt' for part in others)}: not the files that published perplexities are of."
    train, valid, test = (torch.tensor([numbers[word] for word in lines[part]]) for part in PARTS)
    return Text(train, valid, test, words=tuple(words), notes=(note,) if others else ())


def _own(place: Path, config: Config) -> Text:
    """A file, or all text files of a folder in the order of their names."""
    endings = {".txt", ".md", ".rst", ".text"}
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in endings and p.is_file())
    if not files:
        raise DataError(
            f"there is no text in {place}. Give a file, or a folder with files {', '.join(sorted(endings))}."
        )
    return _split([_text(path) for path in files], config, str(place))


def _split(pages: Sequence[str], config: Config, where: str) -> Text:
    """Pieces of some 1000 characters are held out, spread over the text, so that all parts are of one kind."""
    every = max(3, round(1 / config.held_out))
    size = min(1000, sum(map(len, pages)) // (4 * every))
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    for i, block in enumerate(block for page in pages for block in _blocks(page, size)):
        part = {every - 2: "test", every - 1: "valid"}.get(i % every, "train")
        parts[part] += _tokens(block, config.tokens)
    if any(len(tokens) < 2 for tokens in parts.values()):
        raise DataError(
            f"{where} is too short to hold some of it out for validation and test. Give more text, or a larger "
            "held_out."
        )
    counts = Counter(parts["train"])
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: config.vocabulary - 1]
    words = (UNKNOWN, *(word for word in frequent if word != UNKNOWN))
    numbers = {word: i for i, word in enumerate(words)}
    train, valid, test = (torch.tensor([numbers.get(word, 0) for word in parts[part]]) for part in PARTS)
    return Text(train, valid, test, words)


def _blocks(page: str, size: int) -> Iterable[str]:
    """Whole lines or sentences, of this many characters or a little more together."""
    block = ""
    for sentence in re.findall(r".*?(?:[.!?]\s|\n|\Z)", page, re.DOTALL):
        block += sentence
        if len(block) >= size and block.strip():
            yield block
            block = ""
    if block.strip():
        yield block


def _tokens(text: str, kind: str) -> list[str]:
    if kind == "character":
        return list(text)
    return re.findall(r"\w+|[^\w\s]", text.lower())


def _documentation() -> Iterator[str]:
    """The help topics of pydoc and the docstrings of the standard library, a page each."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    library = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "test", "tests", "idlelib", "lib2to3"}
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in sorted(library.rglob("*.py")):
        if left_out.isdisjoint(path.relative_to(library).parts):
            nodes = ast.walk(ast.parse(path.read_bytes()))
            yield "\n\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds))


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"there is no {path}. Give the folder that has it with --data or LEANRNN_DATA.") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text (byte {error.start}). Convert it, with iconv for instance."
        ) from error
    if not text.strip():
        raise DataError(f"{path} is empty. Download it again, or take it out of the folder.")
    return text
