"""Vectors of words: the official text file of GloVe, or an array file with the same in it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import DataError

__all__ = ["WIDTH", "read_glove"]

WIDTH = 100
NAMES = ("glove.6B.100d.txt", "glove.6B.100d.npz")
Vectors = NDArray[np.float32]


def read_glove(place: Path, wanted: set[str]) -> dict[str, Vectors]:
    """Vectors of those of the wanted words that GloVe has, from ``glove.6B.100d.txt`` in a folder (or in ``glove`` in
    it), or from an .npz file with ``vocab`` and ``vectors``. ::

        read_glove(Path("data"), {"the", "of"})["the"].shape  # (100,)
    """
    homes = [place / folder / name for name in NAMES for folder in ("", "glove", "glove.6B")]
    path = next((home for home in homes if home.is_file()), None)
    if path is None:
        raise DataError(
            f"there is no {NAMES[0]} in {place} nor in {place / 'glove'}. Put it there; it comes with glove.6B.zip."
        )
    found = _text(path, wanted) if path.suffix == ".txt" else _arrays(path, wanted)
    if not found:
        raise DataError(f"{path} has none of the words of the questions. Download it again.")
    return found


def _text(path: Path, wanted: set[str]) -> dict[str, Vectors]:
    """A word and its numbers a line."""
    found: dict[str, Vectors] = {}
    with path.open(encoding="utf-8") as file:
        try:
            for number, line in enumerate(file, 1):
                word, _, rest = line.partition(" ")
                if word in wanted:
                    found[word] = np.array(rest.split(), np.float32)
                    if found[word].shape != (WIDTH,):
                        raise DataError(f"{path}, line {number}, has {found[word].size} numbers instead of {WIDTH}.")
        except ValueError as error:  # also what is no UTF-8
            raise DataError(f"{path} is not as GloVe is published ({error}). Download it again.") from error
    return found


def _arrays(path: Path, wanted: set[str]) -> dict[str, Vectors]:
    try:
        with np.load(path, allow_pickle=False) as data:
            words, vectors = data["vocab"].tolist(), data["vectors"].astype(np.float32)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} has no arrays 'vocab' and 'vectors' ({error}). Give {NAMES[0]}.") from error
    if vectors.shape != (len(words), WIDTH):
        raise DataError(
            f"{path} has vectors of shape {vectors.shape} for {len(words)} words. Give {WIDTH} numbers each."
        )
    return {word: vectors[i] for i, word in enumerate(words) if word in wanted}
