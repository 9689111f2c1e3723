"""Ways to a smaller classifier: what is learned from, every arm on a few messages, and the table."""

import pytest
import torch

from benchmarks.classify import messages, train
from benchmarks.classify.run import CASE, Board, told
from benchmarks.classify.train import ARMS, Task
from benchmarks.common import DOCS, RESULTS, between_marks
from benchmarks.pays.records import Record, Store

FILE = """
msgid ""
msgstr ""
"Language: de\\n"

#: views.py
msgid "Date"
msgstr "Datum"

msgid "of the "
"year"
msgstr ""
"des "
"Jahres"

msgid "Name"
msgstr "Name"

msgid "one"
msgid_plural "many"
msgstr[0] "eins"

msgid "empty"
msgstr ""
"""


def test_messages_are_read_with_all_their_lines_and_not_where_they_are_the_same():
    assert messages.pairs(FILE) == {"Date": "Datum", "of the year": "des Jahres"}


@pytest.fixture(scope="module")
def data():
    """Every language has letters it likes."""
    generator = torch.Generator().manual_seed(0)
    letters = "abcdefghijklmnopqr"
    found = {}
    for i, name in enumerate(messages.LANGUAGES):
        likes = letters[i % 9 :: 2] * 3 + letters
        drawn = torch.randint(len(likes), (12, 9), generator=generator).tolist()
        found[name] = {f"message {k}": "".join(likes[j] for j in row) for k, row in enumerate(drawn)}
    return messages.messages(found)


def test_no_message_is_learned_from_and_judged(data):
    places = [messages.part_of(f"message {k}") for k in range(12)]
    parts = {"train": data.train, "valid": data.valid, "test": data.test}
    assert {name: len(part) for name, part in parts.items()} == {name: 18 * places.count(name) for name in parts}
    assert data.train.texts.shape[1] == messages.LENGTH and int(data.train.texts.max()) < data.characters


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_is_within_the_budget(arm, data, monkeypatch):
    monkeypatch.setattr(train, "FITTED", 2)
    teacher = train.Classifier(data.characters).eval() if ARMS[arm].taught else None
    task = Task(data, 5e-3, 1, teacher=teacher, found={"rnn.l0": 42, "rnn.l0_reverse": 40}, epochs=4)
    trained = ARMS[arm].run(task)
    dense, small = (task.groups(model) for model in (task.dense(), trained.model))
    part = small.costs.mult_adds.at(small.widths) / dense.costs.mult_adds.at(dense.widths)
    assert part == 1 if arm == "dense" else 0.2 < part <= 0.25
    assert 3 <= len(trained.valid) <= 4 and 0 <= train.errors(trained.model, data.test) <= 1


def test_runs_are_done_once_and_judged_for_the_chosen_rate_alone(data, tmp_path, monkeypatch):
    board = Board(Store(tmp_path / "results", tmp_path / "work"), data, epochs=2)
    monkeypatch.setattr("benchmarks.classify.run.ARMS", {"uniform": ARMS["uniform"]})
    monkeypatch.setattr("benchmarks.classify.run.SEEDS", (1,))
    board.everything()
    records = board.store.of(CASE)
    best = min(records, key=lambda r: r.valid[-1])
    assert [r.rate for r in records if r.test is not None] == [best.rate] and len(records) >= 3
    board.everything()
    assert board.store.of(CASE) == records


def test_the_table_has_mean_and_deviation_of_the_seeds():
    given = {"rate": 1e-3, "keep": 0.8, "widths": [30, 26], "mult_adds": 5e5, "weights": 5, "seconds": 1.0}
    records = [Record("ours", seed=seed, valid=[0.5], test=0.1 + seed / 100, **given) for seed in (1, 2, 3)]
    records.append(Record("ours", seed=1, valid=[0.7], **given | {"rate": 2e-3}))
    assert "| ours, to a budget | 12.00 % ± 1.00 | 0.5000 | 30, 26 | 500 k | 0.001 |" in told(records)
    assert told([]) == "No run has been done yet."


def test_the_page_has_the_table_of_the_results(tmp_path):
    page = (DOCS / "scoreboard.md").read_text()
    assert between_marks(page, told(Store(RESULTS / "classify", tmp_path).of(CASE)), f"{CASE},") == page
