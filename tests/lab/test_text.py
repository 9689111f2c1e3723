"""Text as numbers: the paper's Penn Treebank, a user's files, and what is said when something is wrong with them."""

import os
from pathlib import Path

import pytest
import torch

from leanrnn.errors import DataError
from leanrnn.lab import Config
from leanrnn.lab.language.text import read, streams, windows

PTB = Config(corpus="ptb")


def make(folder: Path, **parts: str) -> Path:
    for part, text in {"train": "a b b\nc <unk> b\n", "valid": "b c\n", "test": "c a\n", **parts}.items():
        (folder / f"ptb.{part}.txt").write_text(text)
    return folder


def test_penn_treebank_is_numbered_as_in_the_paper(tmp_path):
    text = read(PTB, make(tmp_path))
    # by count, then by name; a word for every end of a line
    assert text.words == ("b", "<eos>", "<unk>", "a", "c")
    assert text.train.tolist() == [3, 0, 0, 1, 4, 2, 0, 1] and text.valid.tolist() == [0, 4, 1]
    assert "not the files that published perplexities are of" in text.notes[0]


def test_real_penn_treebank():
    place = Path(os.environ.get("LEANRNN_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "ptb" / "ptb.train.txt").exists():
        pytest.skip("Penn Treebank is not here; point LEANRNN_DATA at it")
    text = read(PTB, place)
    assert [len(part) for part in (text.train, text.valid, text.test)] == [929_589, 73_760, 82_430]
    assert len(text.words) == 10_000 and text.notes == ()
    assert (len(streams(text.train, 20)) - 1) // 35 == 1327


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"valid": "b zebra\n"}, "has 1 words that ptb.train.txt has not, such as 'zebra'"),
        ({"test": "  \n"}, "ptb.test.txt is empty"),
    ],
)
def test_bad_penn_treebank(tmp_path, parts, message):
    with pytest.raises(DataError, match=message):
        read(PTB, make(tmp_path, **parts))


def test_missing_data(tmp_path, monkeypatch):
    monkeypatch.delenv("LEANRNN_DATA", raising=False)
    with pytest.raises(DataError, match="no data was named"):
        read(PTB)
    with pytest.raises(DataError, match=r"there is no .*nowhere"):
        read(PTB, tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"there is no ptb\.train\.txt in"):
        read(PTB, tmp_path)
    (make(tmp_path) / "ptb.valid.txt").unlink()
    with pytest.raises(DataError, match=r"there is no .*ptb\.valid\.txt"):
        read(PTB, tmp_path)
    monkeypatch.setenv("LEANRNN_DATA", str(make(tmp_path)))
    assert len(read(PTB).words) == 5


def test_a_folder_of_text(tmp_path):
    for i in range(4):
        paragraphs = "\n\n".join(f"Word number {n} of page {i}, again and again. " * 25 for n in range(10))
        (tmp_path / f"{i}.txt").write_text(paragraphs)
    (tmp_path / "picture.png").write_bytes(b"\xff\xfe")
    words = read(Config(corpus="text", vocabulary=12, held_out=0.2), tmp_path)
    assert len(words.words) == 12 and words.words[0] == "<unk>" and "again" in words.words
    assert 0.15 < len(words.valid) / len(words.train) < 0.45 and len(words.test) == pytest.approx(
        len(words.valid), rel=0.3
    )
    letters = read(Config(corpus="text", tokens="character"), tmp_path)
    assert "W" in letters.words and len(letters.train) > 3 * len(words.train)
    assert words.digest != letters.digest == read(Config(corpus="text", tokens="character"), tmp_path).digest


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe\x00", r"is not UTF-8 text \(byte 0\)"), (b"", "is empty"), (b"one line", "too short to hold some")],
)
def test_bad_text(tmp_path, content, message):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(Config(corpus="text"), tmp_path)
    with pytest.raises(DataError, match="there is no text in"):
        (tmp_path / "a.txt").rename(tmp_path / "a.bin")
        read(Config(corpus="text"), tmp_path)


def test_streams_and_windows():
    rows = streams(torch.arange(11), 2)
    assert rows.tolist() == [[0, 5], [1, 6], [2, 7], [3, 8], [4, 9]]
    (first, wanted), (second, _) = windows(rows, 2)
    assert first.tolist() == [[0, 5], [1, 6]] and wanted.tolist() == [[1, 6], [2, 7]] and second[0].tolist() == [2, 7]
    with pytest.raises(DataError, match="too few for 9 streams"):
        streams(torch.arange(11), 9)
