"""The scoreboard of ways to a smaller model: every arm on a text of some hundred words, the grid, what is resumed."""

import tempfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.common import between_marks
from benchmarks.pays import arms, cases, page, run, trials
from benchmarks.pays.arms import ARMS, PLAIN
from benchmarks.pays.cases import Case, Settings
from benchmarks.pays.grid import chosen, final, missing
from benchmarks.pays.records import Record, Store
from benchmarks.pays.strengths import NEAR, next_strength
from benchmarks.pays.trials import TRIALS
from leanrnn.lab.language.text import Text

WORDS = 20


@pytest.fixture(scope="module")
def small():
    """A case of seconds, and its dense model and teacher."""
    config = replace(
        cases.PYTHON, vocabulary=WORDS, embedding=6, widths=(8, 8), window=5, batch=4, epochs=4, constant=2
    )
    return {f"lstm-{times}": Case(f"lstm-{times}", times, config, "lstm-1") for times in (1, 2)}


@pytest.fixture
def store(tmp_path, monkeypatch, small):
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randint(WORDS, (n,), generator=generator) for n in (400, 60, 60)]
    text = Text(*parts, tuple(map(str, range(WORDS))))
    monkeypatch.setattr(run, "text_of", lambda config: text)
    monkeypatch.setattr(run, "CASES", small)
    return Store(tmp_path / "results", tmp_path / "work")


def record(arm="uniform", rate=1.0, keep=0.9, seed=1, valid=30.0, **more):
    given = {"widths": [4, 4], "mult_adds": 10.0, "weights": 5, "seconds": 1.0}
    return Record(arm, rate, keep, seed, valid=[valid], **(given | more))


def fill(store, case, arm, valid=30.0, **more):
    """A complete grid, whose best is in its middle."""
    while setting := missing(store.of(case), arm, False):
        bad = abs(setting.rate - 0.5) + abs(setting.keep - 0.9)
        store.add(case, record(arm, *setting, valid=valid + bad, **more))


@pytest.mark.parametrize(
    "arm", [*(name for name in ARMS if name in PLAIN and not PLAIN[name].strength), "found taught"]
)
def test_every_arm_lands_within_its_budget_and_trains_all_epochs(arm, store, small):
    if ARMS[arm].taught:
        fill(store, "lstm-1", "dense")
    longer = arm.endswith("longer")
    if longer or arm.startswith("found"):
        fill(store, "lstm-2", "ours", seconds=3.0 if longer else 1.0)
        fill(store, "lstm-2", arm.split()[0])
    case = small["lstm-1" if arm == "dense" else "lstm-2"]
    made = run.run(store, case, arm, Settings(0.5, 0.9))
    assert len(made.valid) == (12 if longer else 4) and all(0 < value < 100 for value in made.valid)
    assert 0.5 * case.most < made.mult_adds <= case.most and made.mult_adds == case.mult_adds(made.widths)
    assert made in store.of(case.name)


@pytest.mark.parametrize("arm", ["uniform", "saliency", "ours"])
def test_a_model_that_was_kept_is_loaded_again(arm, store, small):
    case, settings = small["lstm-2"], Settings(0.5, 0.9)
    made = run.run(store, case, arm, settings)
    again = run.model_of(store, run.Task(case, settings, run.text_of(case.config)), arm)
    assert list(again.widths) == made.widths


@pytest.mark.parametrize("arm", ["paper", "lean taught"])
def test_an_arm_with_a_strength_is_tried_until_it_lands_and_says_what_missed(arm, store, small, monkeypatch):
    fill(store, "lstm-1", "dense")
    monkeypatch.setitem(ARMS, arm, replace(ARMS[arm], strength=1e-3))  # as small as the model
    case = small["lstm-2"]
    made = run.run(store, case, arm, Settings(0.5, 0.9))
    assert made.strength and made.missed == (not NEAR * case.most <= made.mult_adds <= case.most)
    assert len(made.valid) == (2 if arm.startswith("lean") and made.missed else 4)


def test_a_strength_is_bisected_to_the_budget():
    tries = []
    while (strength := next_strength(tries, 100.0, guess=1e-3)) is not None:
        tries.append(record(strength=strength, mult_adds=min(400.0, 1.7 / strength**0.8)))
    assert NEAR * 100 <= tries[-1].mult_adds <= 100 and len(tries) <= 6
    assert next_strength([record(strength=1.0, mult_adds=500.0)], 100.0, 1.0) == 2.0
    assert next_strength([record(strength=1.0, mult_adds=50.0)], 100.0, 1.0) == 0.5


def test_the_grid_asks_for_rates_then_dropout_until_the_best_has_worse_on_either_side():
    records, asked = [], []
    while setting := missing(records, "uniform", False):
        asked.append(tuple(setting)[:2])
        worst = abs(setting.rate - 0.2) + abs(setting.keep - 0.78)  # best at a rate that no first grid has
        records.append(record("uniform", *setting, valid=30 + worst))
    assert asked[:4] == [(0.5, 0.9), (1.0, 0.9), (0.25, 0.9), (0.125, 0.9)]
    assert asked[4:] == [(0.25, 0.8), (0.25, 0.7)]
    assert tuple(chosen(records, "uniform").settings)[:2] == (0.25, 0.8) and chosen(records, "norm") is None
    seeds = []
    while setting := missing(records, "uniform", True):
        seeds.append(setting.seed)
        records.append(record("uniform", *setting))
    assert seeds == [2, 3] and len(final(records, "uniform")) == 3


def test_what_is_there_is_not_run_again_and_the_test_text_is_read_for_the_chosen_alone(store, small, monkeypatch):
    monkeypatch.setattr(run, "ORDER", ((("lstm-1",), ("dense",), True),))
    everything = (list(small), list(ARMS), (1, 2, 3))
    while run.next_run(store, *everything):
        pass
    records = store.of("lstm-1")
    counting = final(records, "dense")
    assert sorted(r.seed for r in counting) == [1, 2, 3] and all(r.test for r in counting)
    assert not any(r.test for r in records if r not in counting)
    monkeypatch.setattr(arms, "train", None)
    assert not run.next_run(store, *everything)


def test_a_run_that_somebody_else_is_at_is_left_to_them(store, small, monkeypatch):
    monkeypatch.setattr(run, "ORDER", ((("lstm-2",), ("uniform",), False),))
    with store.claim("lstm-2", "uniform", *Settings(0.5, 0.9)) as mine:
        assert mine and not run.next_run(store, list(small), list(ARMS), (1,))
    assert run.next_run(store, list(small), list(ARMS), (1,))


def test_dense_halves_are_what_a_run_in_one_piece_would_have_been(store, small):
    case = small["lstm-1"]
    task = run.Task(case, Settings(0.5, 0.8), run.text_of(case.config))
    whole = arms.train(task, arms.Method(), arms.Trained(case.model(task.settings)))
    assert run.run(store, case, "dense", task.settings).valid == pytest.approx(whole.valid, abs=1e-3)


def scored(store, arm, case, tests, **more):
    while setting := missing(store.of(case), arm, True):
        best = setting.rate == 0.5 and setting.keep == 0.9
        test = tests[setting.seed - 1] if best else None
        store.add(case, record(arm, *setting, valid=30.0 if best else 31.0, test=test, **more))


def test_the_page_says_who_won_who_lost_and_what_cannot_be_told(store, tmp_path, monkeypatch):
    scored(store, "dense", "gru-1", (20, 20, 20), seconds=100.0)
    scored(store, "ours", "gru-4", (30.0, 30.2, 30.1), seconds=55.0, widths=[53, 75])
    scored(store, "found", "gru-4", (31.0, 31.2, 31.1))
    scored(store, "ours", "rnn-4", (30.0, 30.2, 30.1))
    scored(store, "norm", "rnn-4", (29.0, 29.2, 29.1))
    scored(store, "ours taught", "gru-4", (30.0, 30.2, 30.1))
    scored(store, "uniform taught", "gru-4", (30.1, 29.2, 30.1))
    monkeypatch.setattr(page, "Store", lambda: store)
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "PICTURE", tmp_path / "picture.svg")
    page.PAGE.write_text("<!-- tables: written by a program -->\n\n<!-- end of tables -->\n")
    main(["pays"])
    written = page.PAGE.read_text()
    assert "| ours, to a budget | **30.10 ± 0.10** | 30.10 ± 0.10 |" in written
    assert "| cut at once by norm, trained on | - | **29.10 ± 0.10** |" in written
    assert (
        "- GRU, 4 times less, without a teacher: won." in written
        and "- RNN, 4 times less, without a teacher: lost." in written
    )
    assert "- GRU, 4 times less, with a teacher: too close to tell." in written
    assert "| 53, 75 | 0 k | 0.5, 0.9 | 0.55 |" in written
    assert written == between_marks(written, page.text(page.scores(store)), "written")
    drawn = ElementTree.fromstring(page.PICTURE.read_text())
    assert len(drawn.findall(".//{*}circle")) == 4 + 4 and "prefers-color-scheme: dark" in page.PICTURE.read_text()


def test_the_page_is_that_of_the_results():
    found = page.scores(Store(work=Path(tempfile.mkdtemp())))
    assert page.text(found) in page.PAGE.read_text() or not found


def test_a_tied_model_of_another_text_is_a_case_like_any_other():
    config = replace(cases.PYTHON, corpus="ptb", vocabulary=50, embedding=12, widths=(12, 12), tied=True)
    case = Case("ptb-lstm-4", 4, config, "ptb-lstm-1")
    assert case.dense == "ptb-lstm-1" and case.task == "LSTM, Penn Treebank"
    widths = case.uniform()
    small = case.model(Settings(0.5, 0.9), widths)
    assert small.widths == widths and small.embedding.weight.shape == (50, widths[-1])
    assert case.weights(widths) == sum(p.numel() for p in small.parameters())
    assert case.mult_adds((12, 12)) == 2 * 4 * 2 * 12 * 12 + 12 * 50


@pytest.mark.filterwarnings("ignore:.*only one component")
def test_a_course_of_another_kind_is_trained_with_what_ours_was_tuned_to(store, small, monkeypatch):
    wide = replace(TRIALS["wide"], config={"widths": (12, 12)})
    monkeypatch.setattr(trials, "TRIALS", {**TRIALS, "wide": wide})
    monkeypatch.setattr(trials, "text_of", run.text_of)
    case = small["lstm-2"]
    assert trials.run(store, case, "wide", 1) is None
    fill(store, "lstm-2", "ours")
    for name in ("wide", "follow", "once"):
        made = trials.run(store, case, name, 1)
        assert made.settings == (0.5, 0.9, 1) and 0.5 * case.most < made.mult_adds <= case.most
    monkeypatch.setattr(trials, "CASES", small)
    shown = trials.text(store, ["lstm-2"])
    assert "begun 1.5 times wider" in shown and "%" in shown and "the default | 30.00" in shown


def test_the_page_of_trials_is_what_was_measured():
    page_now = trials.PAGE.read_text()
    assert between_marks(page_now, trials.text(Store()), "written") == page_now
