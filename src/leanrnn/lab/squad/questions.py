"""The official files of SQuAD v1.1 as arrays of tokens; read once, in several processes, and cached."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrnn.errors import DataError
from leanrnn.lab.disk import cache
from leanrnn.lab.squad.tokens import cover, tokenize

__all__ = ["Questions", "Tell", "read_questions"]

FORMAT = 1
"""Of what is cached; part of its key, as the tokens are made by this file and tokens.py."""
FEW = 500  # paragraphs that are not worth a process
Tell = Callable[[str, int, int], None]
"""Told what is done, how much of it, and how much there is."""
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Questions:
    """All questions of a file. Tokens are numbers of ``types``; those of text i are
    ``tokens[starts[i]:starts[i + 1]]``, first all texts, then all questions."""

    types: list[str]
    """Different tokens, as they are written."""
    tokens: Ints
    starts: NDArray[np.int64]
    spans: Ints
    """Of every token of the texts its first character and the one behind its last."""
    text_of: Ints
    """The text of every question."""
    answers: Ints
    """Rows of question, first token, last token."""
    texts: list[str]
    ids: list[str]
    truths: list[list[str]]
    inexact: int
    """Answers that are not whole tokens of their text, so that tokens around them are taken."""
    misplaced: int
    """Answers that do not stand where the file says, nor anywhere else in their text; they are left out."""

    def text(self, question: int) -> Ints:
        """Tokens of the text that a question is about."""
        return self.of(int(self.text_of[question]))

    def question(self, question: int) -> Ints:
        """Tokens of a question."""
        return self.of(len(self.texts) + question)

    def of(self, index: int) -> Ints:
        """Tokens of a text or question by its place."""
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    def answer(self, question: int, first: int, last: int) -> str:
        """The piece of its text from one token to another, as it is written."""
        text = int(self.text_of[question])
        begin = self.starts[text]
        return self.texts[text][self.spans[begin + first, 0] : self.spans[begin + last, 1]]


def read_questions(path: Path, tell: Tell = lambda *_: None) -> Questions:
    """The questions of an official JSON file; what was made of it is cached (in LEANRNN_CACHE, or the user's cache)
    under a key of its content. ::

        dev = read_questions(Path("dev-v1.1.json"))
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}). Give the folder of SQuAD v1.1 with --data."
        ) from error
    key = hashlib.sha256(raw + f"leanrnn squad {FORMAT}".encode()).hexdigest()[:20]
    cached = cache() / f"squad-{key}.npz"
    found = _load(cached)
    if found is None:
        found = _built(_articles(raw, path), path, tell)
        _keep(found, cached)
    return found


def _articles(raw: bytes, path: Path) -> list[dict[str, Any]]:
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON ({error}). Download it again.") from error
    articles = data.get("data") if isinstance(data, dict) else None
    if not isinstance(articles, list) or not articles:
        raise DataError(f"{path} has no list 'data' of articles. Give a file in the format of SQuAD v1.1.")
    return articles


def _built(articles: list[dict[str, Any]], path: Path, tell: Tell) -> Questions:
    """Tokens of all articles, in as many processes as there are processors if there is much to do."""
    checked = [_checked(article, f"{path}: data[{i}]") for i, article in enumerate(articles)]
    parts, done = [], 0
    total = sum(map(len, checked))
    for part in _mapped(checked, total):
        parts.append(part)
        done += len(part)
        tell(f"reading {path.name}", done, total)
    return _joined(parts)


def _mapped(articles: list[list[Any]], total: int) -> Iterator[list[Any]]:
    if total < FEW or (os.cpu_count() or 1) < 2:
        yield from map(_tokenized, articles)
        return
    # Fresh processes: a copy of one that has started threads may hang.
    try:
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(_tokenized, articles, chunksize=4)
    except BrokenProcessPool as error:
        raise DataError(
            "the processes that were to read the questions ended too soon. In a script of your own put what it does "
            "under `if __name__ == '__main__':`, since each of them imports the script."
        ) from error


def _checked(article: Any, where: str) -> list[tuple[str, list[tuple[str, str, list[tuple[int, str]]]]]]:
    """Paragraphs as (text, [(id, question, [(start, answer)])]); what is missing is told by its place in the file."""
    found = []
    for i, paragraph in enumerate(_field(article, "paragraphs", list, where)):
        here = f"{where}.paragraphs[{i}]"
        asked = []
        for j, qa in enumerate(_field(paragraph, "qas", list, here)):
            there = f"{here}.qas[{j}]"
            answers = [
                (
                    _field(a, "answer_start", int, f"{there}.answers[{k}]"),
                    _field(a, "text", str, f"{there}.answers[{k}]"),
                )
                for k, a in enumerate(_field(qa, "answers", list, there))
            ]
            if not answers:
                raise DataError(f"{there} has no answer. SQuAD 2.0 has such questions; give the files of v1.1.")
            asked.append((_field(qa, "id", str, there), _field(qa, "question", str, there), answers))
        found.append((_field(paragraph, "context", str, here), asked))
    return found


def _field(record: Any, name: str, kind: type, where: str) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        raise DataError(f"{where} has no {name!r} that is a {kind.__name__}. Give a file in the format of SQuAD v1.1.")
    return value


def _tokenized(article: list[Any]) -> list[Any]:
    """Of every paragraph: text, spans, and per question its tokens, id, answers as tokens, answers as text, counts."""
    found = []
    for text, asked in article:
        spans = tokenize(text)
        questions = []
        for name, question, answers in asked:
            words = [question[i:j] for i, j in tokenize(question)]
            places, inexact, misplaced = [], 0, 0
            for start, answer in answers:
                place = _place(text, start, answer)
                tokens = None if place is None else cover(spans, place, place + len(answer))
                if place is None or tokens is None:
                    misplaced += 1
                    continue
                inexact += text[spans[tokens[0]][0] : spans[tokens[1]][1]] != answer.strip()
                places.append(tokens)
            questions.append((name, words, places, [answer for _, answer in answers], inexact, misplaced))
        found.append((text, spans, questions))
    return found


def _place(text: str, start: int, answer: str) -> int | None:
    """Where an answer stands: where the file says, or else at the nearest place that has it."""
    if not answer.strip():
        return None
    if text.startswith(answer, start):
        return start
    places = [i for i in range(len(text)) if text.startswith(answer, i)]
    return min(places, key=lambda i: abs(i - start), default=None)


def _joined(articles: list[list[Any]]) -> Questions:
    paragraphs = [paragraph for article in articles for paragraph in article]
    asked = [(i, question) for i, (_, _, questions) in enumerate(paragraphs) for question in questions]
    if not asked:
        raise DataError("there is no question in the file. Give a file in the format of SQuAD v1.1.")
    numbers: dict[str, int] = {}
    lists = [[text[i:j] for i, j in spans] for text, spans, _ in paragraphs] + [question[1] for _, question in asked]
    tokens = [
        np.fromiter((numbers.setdefault(w, len(numbers)) for w in words), np.int32, len(words)) for words in lists
    ]
    spans = [span for _, each, _ in paragraphs for span in each]
    answers = [(q, *place) for q, (_, question) in enumerate(asked) for place in question[2]]
    return Questions(
        types=list(numbers),
        tokens=np.concatenate(tokens),
        starts=np.cumsum([0, *map(len, tokens)], dtype=np.int64),
        spans=np.array(spans, np.int32).reshape(-1, 2),
        text_of=np.array([i for i, _ in asked], np.int32),
        answers=np.array(answers, np.int32).reshape(-1, 3),
        texts=[text for text, _, _ in paragraphs],
        ids=[question[0] for _, question in asked],
        truths=[question[3] for _, question in asked],
        inexact=sum(question[4] for _, question in asked),
        misplaced=sum(question[5] for _, question in asked),
    )


ARRAYS = ("tokens", "starts", "spans", "text_of", "answers")
REST = ("types", "texts", "ids", "truths", "inexact", "misplaced")


def _load(path: Path) -> Questions | None:
    """What is cached there; None if there is nothing whole."""
    try:
        with np.load(path, allow_pickle=False) as data:
            rest = json.loads(data["rest"].tobytes())
            return Questions(**{name: data[name] for name in ARRAYS}, **{name: rest[name] for name in REST})
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def _keep(found: Questions, path: Path) -> None:
    """Whole or not at all; where there is no room or no right to write, the file is read anew each time."""
    rest = json.dumps({name: getattr(found, name) for name in REST}).encode()
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
            np.savez(file, rest=np.frombuffer(rest, np.uint8), **{name: getattr(found, name) for name in ARRAYS})
        part.replace(path)
    except OSError:
        if part is not None:
            part.unlink(missing_ok=True)
