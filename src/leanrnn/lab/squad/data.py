"""Questions as numbers of words and characters, in batches of texts of about one length."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leanrnn.errors import DataError
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.glove import read_glove
from leanrnn.lab.squad.model import CHARACTERS
from leanrnn.lab.squad.questions import Questions, Tell, read_questions

__all__ = ["Batch", "Inputs", "Squad", "Vocabulary", "batches", "read", "usable"]

FILES = {"train": ("train-v1.1.json", "train-v1.1.rebuilt.json"), "dev": ("dev-v1.1.json",)}
POOL = 50  # batches that are sorted by length together
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
"""Words and characters of the texts, then of the questions."""


@dataclass(frozen=True)
class Vocabulary:
    """Words and characters by number: no word, the unknown one, ``own`` in all that are learned, then GloVe's."""

    words: tuple[str, ...]
    own: int
    characters: str
    """From number 2 on; 0 is none, 1 any other."""

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``Vocabulary.from_json`` reads it back."""
        return {"words": list(self.words), "own": self.own, "characters": self.characters}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Vocabulary:
        """The reverse of it."""
        return cls(tuple(data["words"]), int(data["own"]), str(data["characters"]))

    def numbers(self, types: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of the word, and numbers of the first characters, of every token. ::

        words, characters = vocabulary.numbers(["Who", "asks", "?"])
        """
        by_word = {word: i for i, word in enumerate(self.words)}
        by_character = {character: i + 2 for i, character in enumerate(self.characters)}
        words = np.array([by_word.get(each.lower(), 1) for each in types], np.int64)
        characters = np.zeros((len(types), CHARACTERS), np.int64)
        for row, each in zip(characters, types, strict=True):
            found = [by_character.get(character, 1) for character in each[:CHARACTERS]]
            row[: len(found)] = found
        return words, characters


@dataclass(frozen=True, eq=False)
class Squad:
    """Training and development questions, the words they know, and the vectors of GloVe's."""

    train: Questions
    dev: Questions
    vocabulary: Vocabulary
    glove: Tensor
    notes: tuple[str, ...] = ()
    """What a user should know about the data, a line each."""

    @property
    def digest(self) -> str:
        """Tells one set from another."""
        found = hashlib.sha256("\n".join([*self.vocabulary.words, self.vocabulary.characters]).encode())
        for part in (self.train, self.dev):
            for array in (part.tokens, part.starts, part.answers):
                found.update(array.tobytes())
        found.update(self.glove.numpy().tobytes())
        return found.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Batch:
    """Questions side by side."""

    inputs: Inputs
    first: Tensor
    last: Tensor
    """First and last token of an answer of each; -1 in those that are only to be answered."""
    rows: NDArray[np.int64]
    """Which questions they are."""


def read(config: SquadConfig, folder: Path | None = None, tell: Tell = lambda *_: None) -> Squad:
    """SQuAD v1.1 and GloVe from ``folder`` (or where LEANRNN_DATA points): train-v1.1.json, dev-v1.1.json,
    glove.6B.100d.txt, there or in ``squad`` and ``glove``. ::

        data = read(SquadConfig(), Path("data"))
    """
    place = folder or (Path(os.environ["LEANRNN_DATA"]) if os.environ.get("LEANRNN_DATA") else None)
    if place is None:
        raise DataError("no data was named. Give --data FOLDER, or set the variable LEANRNN_DATA.")
    train, dev = (read_questions(_file(place, part), tell) for part in ("train", "dev"))
    words, characters = _counted(train)
    wanted = {each.lower() for part in (train, dev) for each in part.types}
    glove = read_glove(place, wanted)
    own = ["", "<unk>", *sorted(w for w, n in words.items() if n > config.word_count and w not in glove)]
    fixed = sorted(glove)
    known = "".join(sorted(c for c, n in characters.items() if n > config.character_count))
    notes = [_note(name, part) for name, part in (("training", train), ("development", dev)) if part.inexact]
    vectors = torch.from_numpy(np.stack([glove[word] for word in fixed]))
    return Squad(train, dev, Vocabulary((*own, *fixed), len(own), known), vectors, tuple(notes))


def usable(questions: Questions, config: SquadConfig) -> NDArray[np.int64]:
    """Questions short enough to be trained on, with an answer inside the part of the text that is read."""
    lengths = np.diff(questions.starts)[len(questions.texts) :]
    ends = np.full(len(questions.ids), config.context_tokens)
    np.minimum.at(ends, questions.answers[:, 0], questions.answers[:, 2])
    found = np.flatnonzero((lengths <= config.question_tokens) & (lengths > 0) & (ends < config.context_tokens))
    if not len(found):
        raise DataError(
            "no question is short enough to be trained on. Give a larger question_tokens or context_tokens."
        )
    return found


def batches(
    questions: Questions, vocabulary: Vocabulary, rows: NDArray[np.int64], size: int, *, cut: int | None = None,
    random: np.random.Generator | None = None,
) -> Iterator[Batch]:  # fmt: skip
    """The questions of ``rows`` in batches of texts of about one length. With ``random`` they come in an order of
    chance, with one of their answers each and texts cut to ``cut`` tokens; without, by length. ::

        for batch in batches(data.dev, data.vocabulary, np.arange(100), 60):
            start, end = model(*batch.inputs)
    """
    words, characters = (torch.from_numpy(each) for each in _table(questions, vocabulary))
    lengths = np.diff(questions.starts)[questions.text_of[rows]]
    for chosen in _grouped(lengths if cut is None else np.minimum(lengths, cut), size, random):
        asked = rows[chosen]
        texts = _padded([questions.text(int(q))[:cut] for q in asked])
        said = _padded([questions.question(int(q)) for q in asked])
        first, last = _answers(questions, asked, cut, random)
        yield Batch((words[texts], characters[texts], words[said], characters[said]), first, last, asked)


def _file(place: Path, part: str) -> Path:
    homes = [place / folder / name for name in FILES[part] for folder in ("", "squad")]
    path = next((home for home in homes if home.is_file()), None)
    if path is None:
        raise DataError(
            f"there is no {FILES[part][0]} in {place} nor in {place / 'squad'}. Put the files of SQuAD v1.1 there."
        )
    return path


def _counted(questions: Questions) -> tuple[dict[str, int], dict[str, int]]:
    """How often words and characters are in the questions, and in the texts once for every question, as the source
    counts."""
    times = np.bincount(questions.text_of, minlength=len(questions.texts))
    weights = np.repeat([*times, *np.ones(len(questions.ids))], np.diff(questions.starts))
    counts = np.bincount(questions.tokens, weights, len(questions.types))
    words: dict[str, int] = {}
    characters: dict[str, int] = {}
    for each, count in zip(questions.types, counts.astype(int).tolist(), strict=True):
        words[each.lower()] = words.get(each.lower(), 0) + count
        for character in each:
            characters[character] = characters.get(character, 0) + count
    return words, characters


def _note(name: str, questions: Questions) -> str:
    lost = f", {questions.misplaced} stand nowhere in their text" if questions.misplaced else ""
    return (
        f"{questions.inexact} of {len(questions.answers)} {name} answers begin or end inside a word, and are taken "
        f"with all of it{lost}."
    )


def _table(questions: Questions, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words and characters of every kind of token; in front of them, what stands where there is none."""
    words, characters = vocabulary.numbers(questions.types)
    return np.insert(words, 0, 0), np.insert(characters, 0, 0, axis=0)


def _grouped(lengths: NDArray[np.int64], size: int, random: np.random.Generator | None) -> Iterable[NDArray[np.int64]]:
    """Places of ``lengths`` in batches: sorted, or sorted within random pools, which are then shuffled."""
    if random is None:
        order = np.argsort(lengths, kind="stable")
        return (order[i : i + size] for i in range(0, len(order), size))
    order, found = random.permutation(len(lengths)), []
    for i in range(0, len(order), POOL * size):
        pool = order[i : i + POOL * size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        found += [pool[j : j + size] for j in range(0, len(pool), size)]
    return (found[i] for i in random.permutation(len(found)))


def _padded(lists: Sequence[NDArray[np.int32]]) -> Tensor:
    """Tokens, one more each, with 0 behind the last."""
    found = np.zeros((len(lists), max(1, *map(len, lists))), np.int64)
    for row, each in zip(found, lists, strict=True):
        row[: len(each)] = each + 1
    return torch.from_numpy(found)


def _answers(
    questions: Questions, rows: NDArray[np.int64], cut: int | None, random: np.random.Generator | None
) -> tuple[Tensor, Tensor]:
    found = np.full((len(rows), 2), -1, np.int64)
    if random is not None:
        begins = np.searchsorted(questions.answers[:, 0], rows)
        ends = np.searchsorted(questions.answers[:, 0], rows, "right")
        for place, begin, end in zip(found, begins, ends, strict=True):
            fit = [pair for _, *pair in questions.answers[begin:end] if cut is None or pair[1] < cut]
            place[:] = fit[int(random.integers(len(fit)))]
    return torch.from_numpy(found[:, 0].copy()), torch.from_numpy(found[:, 1].copy())
