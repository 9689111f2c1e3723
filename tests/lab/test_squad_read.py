"""Official files to arrays: nothing of an answer is lost, and what is wrong with a file is said."""

import json
import multiprocessing
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from leanrnn.errors import ConfigError, DataError
from leanrnn.lab.squad import questions as reading
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import batches, read, usable
from leanrnn.lab.squad.questions import read_questions
from leanrnn.lab.squad.tokens import cover, sentence, tokenize
from tests.support.asked import TINY, article, write_squad


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEANRNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LEANRNN_DATA", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It isn't 1,000 U.S. dollars.", ["It", "is", "n't", "1,000", "U.S.", "dollars", "."]),
        ("They\u2019ve won: 24\u201310!", ["They", "\u2019ve", "won", ":", "24", "\u2013", "10", "!"]),
        ("the 1950s, 3.5%", ["the", "1950", "s", ",", "3.5", "%"]),
        ("Mary's mid-2015 B2B", ["Mary", "'s", "mid", "-", "2015", "B2B"]),
        ("snake_case (été)", ["snake", "_", "case", "(", "été", ")"]),
        ("can't 'd", ["ca", "n't", "'d"]),
        (" \n\t", []),
    ],
)
def test_tokens(text, tokens):
    spans = tokenize(text)
    assert [text[i:j] for i, j in spans] == tokens
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert "".join(tokens) == "".join(text.split())  # no character is lost


def test_tokens_that_hold_characters():
    spans = tokenize("In 1950s Rome.")  # In 1950 s Rome .
    assert cover(spans, 3, 7) == (1, 1) and cover(spans, 3, 8) == (1, 2) and cover(spans, 4, 5) == (1, 1)
    assert cover(spans, 0, 14) == (0, 4) and cover(spans, 2, 3) is None


def test_sentence_of_an_answer():
    text = 'It rained. "Bob left!" Then\nnothing'
    assert sentence(text, 12, 15) == '"Bob left!"' and sentence(text, 0, 2) == "It rained."
    assert sentence(text, 28, 35) == "nothing"


def write(folder: Path, data: object) -> Path:
    path = folder / "dev-v1.1.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def one(**changes: object) -> dict:
    """A file of one question."""
    qa = {"id": "q", "question": "Who?", "answers": [{"answer_start": 0, "text": "Bob"}]} | changes
    return {"data": [{"paragraphs": [{"context": "Bob, not Bobby, left Bonn.", "qas": [qa]}]}]}


def test_every_answer_is_found_again(tmp_path):
    found = read_questions(write(tmp_path, {"data": [article(0, 30)]}))
    assert len(found.ids) == 90 and found.inexact == found.misplaced == 0
    for question, first, last in found.answers:
        assert found.answer(question, first, last) == found.truths[question][0]


def test_answers_that_are_not_whole_tokens_are_counted(tmp_path):
    answers = [(9, "Bob"), (0, "Bo"), (3, "Bonn"), (0, "Eve"), (0, " ")]
    found = read_questions(write(tmp_path, one(answers=[{"answer_start": i, "text": t} for i, t in answers])))
    # Inside Bobby, inside Bob; Bonn is elsewhere and found; Eve and nothing are not in the text.
    assert found.answers[:, 1:].tolist() == [[3, 3], [0, 0], [6, 6]]
    assert (found.inexact, found.misplaced) == (2, 2)
    assert found.truths == [["Bob", "Bo", "Bonn", "Eve", " "]]  # all of them count in the score


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "is no JSON"),
        ([], "has no list 'data'"),
        ({"data": []}, "has no list 'data'"),
        ({"data": [{"title": "x"}]}, r"data\[0\] has no 'paragraphs'"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, r"paragraphs\[0\] has no 'context'"),
        ({"data": [{"paragraphs": [{"context": "x", "qas": []}]}]}, "there is no question"),
        (one(id=3), r"qas\[0\] has no 'id' that is a str"),
        (one(answers=[{"text": "Bob"}]), r"answers\[0\] has no 'answer_start' that is a int"),
        (one(answers=[]), "SQuAD 2.0"),
    ],
)
def test_wrong_files(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        read_questions(write(tmp_path, data))


def test_kept_under_a_key_of_the_content(tmp_path, cache, monkeypatch):
    path = write(tmp_path, one())
    first = read_questions(path)
    (kept,) = cache.iterdir()
    monkeypatch.setattr(reading, "_built", None)  # it is not called again
    again = read_questions(path)
    assert again.types == first.types and np.array_equal(again.answers, first.answers) and again.texts == first.texts
    monkeypatch.undo()
    monkeypatch.setenv("LEANRNN_CACHE", str(cache))
    kept.write_bytes(b"damaged")
    assert read_questions(path).ids == ["q"]
    write(tmp_path, one(id="other"))
    assert read_questions(path).ids == ["other"] and len(list(cache.iterdir())) == 2
    monkeypatch.setenv("LEANRNN_CACHE", str(path))  # a file: nothing can be kept there
    assert read_questions(path).ids == ["other"]


def test_several_processes_read_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "FEW", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    told = []
    path = write(tmp_path, {"data": [article(i, 3) for i in range(3)]})
    spread = read_questions(path, lambda *what: told.append(what))
    assert told == [("reading dev-v1.1.json", n, 9) for n in (3, 6, 9)]
    assert not multiprocessing.active_children()
    articles = json.loads(path.read_text())["data"]
    alone = reading._joined([reading._tokenized(reading._checked(each, "")) for each in articles])
    assert spread.types == alone.types and np.array_equal(spread.tokens, alone.tokens)


def test_a_script_that_processes_cannot_import(tmp_path):
    """Every process imports it, and would begin anew: Python forbids that, and the user is told what to write."""
    path = write(tmp_path, {"data": [article(i, 200) for i in range(3)]})
    script = tmp_path / "mine.py"
    script.write_text(
        "import os\nos.cpu_count = lambda: 2\nfrom pathlib import Path\n"
        f"from leanrnn.lab.squad.questions import read_questions\nread_questions(Path({str(path)!r}))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "DataError: the processes that were to read" in done.stderr.splitlines()[-1]
    script.write_text("if __name__ == '__main__':\n    " + script.read_text().replace("\n", "\n    "))
    subprocess.run([sys.executable, script], check=True)


def test_vocabulary_and_vectors(tmp_path):
    data = read(TINY, write_squad(tmp_path / "data"))
    words = data.vocabulary.words
    assert words[:2] == ("", "<unk>") and data.vocabulary.own + len(data.glove) == len(words)
    assert "lives" in words[data.vocabulary.own :] and "ada" in words[: data.vocabulary.own]
    few = read(replace(TINY, word_count=10_000, character_count=10_000), tmp_path / "data")
    assert few.vocabulary.own == 2 and few.vocabulary.characters == ""
    numbers, characters = few.vocabulary.numbers(["Lives", "Ada", "x" * 40])
    assert words[-1] and numbers[1] == 1 and few.vocabulary.words[numbers[0]] == "lives"
    assert characters.shape == (3, 16) and (characters[1] == [1, 1, 1] + [0] * 13).all() and characters[2].all()
    assert data.digest == read(TINY, tmp_path / "data").digest != few.digest


def test_vectors_from_arrays(tmp_path):
    folder = write_squad(tmp_path / "data")
    plain = read(TINY, folder)
    (folder / "glove.6B.100d.txt").unlink()
    words = plain.vocabulary.words[plain.vocabulary.own :]
    np.savez(folder / "glove.6B.100d.npz", vocab=np.array(words), vectors=plain.glove.numpy())
    assert np.array_equal(read(TINY, folder).glove, plain.glove)
    for bad, message in (({"vocab": np.array(words)}, "no arrays"), ({"vectors": np.zeros((2, 3))}, "no arrays")):
        np.savez(folder / "glove.6B.100d.npz", **bad)
        with pytest.raises(DataError, match=message):
            read(TINY, folder)
    np.savez(folder / "glove.6B.100d.npz", vocab=np.array(words), vectors=np.zeros((2, 3)))
    with pytest.raises(DataError, match="vectors of shape"):
        read(TINY, folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing 1 2\n", "has none of the words"),
        ("the 1 2\n", "line 1, has 2 numbers"),
        ("the x y\n", "not as GloVe is published"),
    ],
)
def test_wrong_vectors(tmp_path, text, message):
    folder = write_squad(tmp_path / "data")
    (folder / "glove.6B.100d.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read(TINY, folder)


def test_missing_files_are_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no data was named"):
        read(TINY)
    monkeypatch.setenv("LEANRNN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"there is no train-v1.1.json in"):
        read(TINY)
    folder = write_squad(tmp_path / "squad")
    (folder / "glove.6B.100d.txt").unlink()
    with pytest.raises(DataError, match=r"there is no glove.6B.100d.txt in"):
        read(TINY)
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "none.json")


def test_long_questions_and_late_answers_are_not_trained_on(tmp_path):
    data = read(TINY, write_squad(tmp_path / "data"))
    everything = len(data.train.ids)
    assert len(usable(data.train, TINY)) == everything
    assert 0 < len(usable(data.train, replace(TINY, context_tokens=12))) < everything
    with pytest.raises(DataError, match="no question is short enough"):
        usable(data.train, replace(TINY, question_tokens=2))


def test_batches_hold_every_question_once_and_are_of_one_length(tmp_path):
    data = read(TINY, write_squad(tmp_path / "data"))
    rows = usable(data.train, TINY)
    for random in (None, np.random.default_rng(3)):
        found = list(batches(data.train, data.vocabulary, rows, 5, random=random))
        assert sorted(np.concatenate([batch.rows for batch in found]).tolist()) == rows.tolist()
        for batch in found:
            words, characters, _, _ = batch.inputs
            lengths = (words != 0).sum(1)
            assert lengths.max() == words.size(1) and characters.shape == (*words.shape, 16)
            assert int(lengths.min()) >= int(lengths.max()) - 8  # pools are sorted
            if random is not None:
                for row, first, last in zip(batch.rows, batch.first, batch.last, strict=True):
                    assert data.train.answer(row, first, last) == data.train.truths[row][0]
    short = usable(data.train, replace(TINY, context_tokens=12))
    cut = list(batches(data.train, data.vocabulary, short, 48, cut=12, random=np.random.default_rng(0)))
    assert cut[0].inputs[0].size(1) == 12 and int(cut[0].last.max()) < 12


@pytest.mark.parametrize(
    "change",
    [{"steps": 0}, {"keep": 0.0}, {"strength": -1.0}, {"rate": 0.0}, {"average": 1.0}, {"judged": -1}],
)
def test_settings_no_run_can_have(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        SquadConfig(**change)
    assert SquadConfig.from_json(SquadConfig(steps=7).to_json()).steps == 7
