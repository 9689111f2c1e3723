"""Sweeps: what is tried, which trials are hopeless, whose a trial is, and the front in the end."""

import json
import math
import pickle
import sys
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from leanrnn.cli.main import main
from leanrnn.cli.on_ray import _join
from leanrnn.cli.sweep import Sweeps, prepared
from leanrnn.errors import ConfigError, RunError
from leanrnn.lab.sweep.forecast import forecast, hopeless
from leanrnn.lab.sweep.space import axes, valued
from leanrnn.lab.sweep.study import Hopeless, Plan, Sweep
from leanrnn.lab.sweep.work import front_of, of_function, work
from tests.support.tiny import write_book

SPACE = axes(["rate=0.01..1:log", "cell=lstm|gru"])
PLAN = Plan("my.py:train", ("mult_adds=50%", "mult_adds=25%"), SPACE, trials=3)


def test_ranges_as_they_are_written():
    rate, width, cell = axes(["rate=0.5..2:log", "width=16..64", "cell=lstm|gru"])
    assert (rate.low, rate.high, rate.log, rate.whole) == (0.5, 2.0, True, False)
    assert width.whole and not width.log and cell.values == ("lstm", "gru")
    assert [axis.name for axis in axes([], rate=1.0)] == ["rate", "warm_up", "shrink"]
    assert [valued(text) for text in ("3", "0.5", "true", "lstm")] == [3, 0.5, True, "lstm"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["rate"], "is no range"),
        (["rate=2..1"], "is no range"),
        (["rate=0..1:log"], "has to begin above 0"),
        (["rate=1..2:lin"], "is no range"),
        (["rate=1..2", "rate=1..3"], "twice"),
        ([], "there is nothing to try"),
    ],
)
def test_what_is_no_range_is_told(texts, message):
    with pytest.raises(ConfigError, match=message):
        axes(texts)


def test_a_forecast_knows_how_much_is_still_to_be_cut():
    """Scores that fall by a fifth to the end, and rise with the logarithm of the cost that goes."""

    def finished(cost: float, score: float) -> list[tuple[float, float, float]]:
        return [(0.5, score, cost), (1.0, score * 0.8 * math.exp(0.1 * math.log(cost)), 1.0)]

    known = [finished(cost, score) for cost, score in ((1.0, 100), (1.5, 90), (2.0, 110), (3.0, 95), (2.5, 99))]
    for cost in (1.0, 2.0, 4.0):
        found = forecast((0.5, 100.0, cost), known)
        assert found is not None and found[0] == pytest.approx(80 * math.exp(0.1 * math.log(cost)), rel=1e-6)
        assert found[1] < found[0]
    # The same score is hopeless for a model that has all of it before it, and not for one that is small already.
    assert hopeless((0.5, 100.0, 4.0), known, 82.0) and not hopeless((0.5, 100.0, 1.0), known, 82.0)
    assert forecast((0.5, 100.0, 1.0), known[:3]) is None and not hopeless((0.5, 900.0, 1.0), known[:3], 1.0)
    assert not hopeless((0.5, 900.0, 1.0), known, None) and not hopeless((1.0, 900.0, 1.0), known, 1.0)
    assert forecast((0.4, 100.0, 1.0), known) is None  # nobody has told a score so early


def test_a_trial_is_of_one_process_and_free_when_that_is_gone(tmp_path):
    first, second = (Sweep(tmp_path, PLAN) for _ in range(2))
    with first.claimed() as mine, second.claimed() as other:
        assert (mine.budget, mine.number) == ("mult_adds=50%", 0) and (other.budget, other.number)[0] == "mult_adds=25%"
        assert mine.settings.keys() == {"rate", "cell"} and second.running() == 2
        mine.report(0.5, 10.0, 1.5)
        other.finish(3.0, {"mult_adds": 1.25})
    with second.claimed() as again:  # with what it was begun with
        assert (again.budget, again.number, again.settings) == (mine.budget, 0, mine.settings)
        assert again.points == [(0.5, 10.0, 1.5)]
        again.report(0.5, 9.0, 1.5)
        assert again.points == [(0.5, 9.0, 1.5)]
        again.finish(5.0, {"mult_adds": 0.9})
    assert front_of(first)[0]["score"] == 5.0 and front_of(first)[0]["used"] == {"mult_adds": pytest.approx(0.9)}
    assert len(front_of(first)) == 1  # the other trial does not hold its budget
    with pytest.raises(RunError, match=r"holds another sweep: budgets was .* Name another folder"):
        Sweep(tmp_path, Plan("my.py:train", ("mult_adds=10%",), SPACE, trials=3))


def test_all_trials_are_done_and_told(tmp_path):
    sweep, told = Sweep(tmp_path, PLAN), []

    def train(trial):
        assert trial.folder.is_dir()
        if trial.number == 0 and trial.budget == "mult_adds=25%":
            raise ConfigError("this cannot be trained")
        if trial.number == 1:
            raise Hopeless
        return trial.settings["rate"], 0.99

    work(sweep, of_function(train), told=lambda what, claim: told.append((claim.budget, claim.number, what)))
    assert sweep.counts("mult_adds=25%") == {"FAIL": 1, "PRUNED": 1, "COMPLETE": 1}
    assert sweep.counts("mult_adds=50%") == {"COMPLETE": 2, "PRUNED": 1} and sweep.running() == 0
    assert ("mult_adds=25%", 0, "failed: this cannot be trained") in told
    best = {each["budget"]: each for each in front_of(sweep)}
    assert best["mult_adds=50%"]["score"] == best["mult_adds=50%"]["settings"]["rate"]


def test_a_recipe_from_the_command_line(tmp_path, monkeypatch, capsys):
    write_book(tmp_path)
    monkeypatch.chdir(tmp_path)
    small = ["vocabulary=40", "held_out=0.2", "embedding=8", "widths=10,9", "epochs=3", "batch=20", "window=6"]
    sweep = ["sweep", "text", "--data", "book.txt", "--trials", "1", "--set", *small]
    sweep += ["--budgets", "mult_adds=80%", "mult_adds=60%"]
    assert main([*sweep, "--json"]) == 0
    front = json.loads(capsys.readouterr().out)["front"]
    assert [each["budget"] for each in front] == ["mult_adds=80%", "mult_adds=60%"]
    for each in front:
        result = json.loads(Path("sweeps/text", each["folder"], "result.json").read_text())
        assert result["valid"] == each["score"] and each["used"]["mult_adds"] == pytest.approx(
            result["used"]["mult_adds"]
        )
    assert main(sweep) == 0  # it is done already
    assert capsys.readouterr().out == Path("sweeps/text/front.md").read_text()
    assert main(["report", "sweeps/text", "--seconds", "0", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2


def test_a_worker_on_another_node_does_the_trials_that_are_left(tmp_path, monkeypatch):
    """What Ray runs: it gets the command, and goes to the folder that the command was given in."""
    (tmp_path / "mine.py").write_text("def train(trial):\n    return trial.settings['rate'], 0.9\n")
    monkeypatch.chdir(tmp_path)
    asked = Sweeps("mine.py:train", out=Path("mine"), budgets=("weights=50%",), search=("rate=1..2",), trials=3)
    _join(pickle.loads(pickle.dumps(asked)), str(tmp_path))
    plan, _ = prepared(asked)
    (best,) = front_of(Sweep(tmp_path / "mine", plan))
    assert best["COMPLETE"] == 3 and 1 <= best["score"] <= 2


def test_ray_that_is_not_installed_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text("def train(trial):\n    return 1.0, 0.9\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["sweep", "mine.py:train", "--search", "rate=1..2", "--engine", "ray"]) == 2
    assert "pip install leanrnn[ray]" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["sweep", "mine.py:train", "--search", "rate=1..2"]) == 2
    assert "pip install leanrnn[sweep]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text", "--data", "book.txt", "--set", "epoch=3"], "Did you mean 'epochs'?"),
        (["text", "--data", "book.txt", "--search", "rat=1..2"], "Did you mean 'rate'?"),
        (["text", "--data", "book.txt", "--budgets", "madds=1"], "is no part of a budget"),
        (["text", "--data", "book.txt", "--trials", "0"], "trials is 0"),
        (["ptb-lstm-small-iss-finetune"], "begins with a trained model"),
        (["text", "--address", "auto"], "Add --engine ray"),
        (["nowhere.py:train", "--search", "a=1..2"], "there is no file nowhere.py"),
        (["text", "--data", "book.txt", "--storage", "nothing://x"], "the database cannot be used"),
    ],
)
def test_mistakes_are_told(arguments, message, tmp_path, monkeypatch, capsys):
    write_book(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *arguments]) == 2
    assert message in capsys.readouterr().err
