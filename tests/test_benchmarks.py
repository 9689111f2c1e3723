"""The benchmarks run, at a size that says nothing about time, and memory is as promised."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]


def run(name: str, out: Path, *options: str) -> dict:
    command = [sys.executable, str(ROOT / "benchmarks" / name), "--out", str(out), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return json.loads(out.read_text())


def test_step_overhead_needs_less_than_a_copy_of_the_largest_matrix(tmp_path):
    options = ["--widths", "128", "--vocabulary", "8000", "--batch", "2", "--length", "2", "--repeats", "2"]
    result = run("step_overhead.py", tmp_path / "overhead.json", *options)
    size = result["sizes"][0]
    assert 0 < size["extra_bytes"] <= size["largest_matrix_bytes"]
    assert size["ratio"]["median"] > 0 and result["environment"]["torch"]


def test_discover_cost_measures_and_fits_an_exponent(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from discover_cost import growth, measure

    cost = measure("discover and shrink", "rhn-4", 9, 2, meta=False)
    assert cost["seconds"] > 0 and cost["extra_bytes"] >= 0 and cost["operators"] > 100
    squares = growth("test", [2, 4, 8], "axes", lambda n: {"axes": n, "seconds": n**2})
    assert abs(squares["exponent"] - 2) < 1e-9


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import peers

    return peers


def test_leanrnn_is_correct_on_the_models_of_the_comparison(peers):
    assert len(peers.MODELS) == 12
    for name in peers.MODELS:
        for way in peers.TOOLS["leanrnn"].values():
            for dead in (True, False):
                outcome = peers.judge(way, name, dead)
                before, after = outcome["units"]
                assert (outcome["verdict"], 2 * after) == ("correct", before), (name, outcome)


def test_dead_units_of_the_comparison_are_dead_and_the_others_alive(peers):
    from peer_models import ALIVE, DEAD, build

    for units, noticed in ((DEAD, False), (ALIVE[:1], True)):
        model, inputs = build("LSTM, head on all outputs")
        before = model(*inputs)
        model.head.weight.data[:, list(units)] += 1.0
        assert torch.equal(before, model(*inputs)) != noticed


def test_comparison_tells_wrong_crashed_silent_and_not_offered(peers):
    from peer_models import ALIVE, HIDDEN, Outputs, lstm
    from peer_tools import Cut, leanrnn_keep

    def shifted(model, inputs):
        cut = leanrnn_keep(model, inputs)
        cut.small.head.weight.data += 0.1
        return cut

    def raising(model, inputs):
        assert len(ALIVE) == HIDDEN
        return Cut(Outputs(lstm()))

    def ours(model, inputs):
        return peers.count(None)

    name = "LSTM, head on all outputs"
    with pytest.raises(AttributeError):
        peers.judge(ours, name, True)
    wrong = peers.judge(shifted, name, True)
    assert wrong["verdict"] == "wrong" and wrong["difference"] > peers.ALLOWED
    crash = peers.judge(raising, name, True)
    assert crash["verdict"] == "crashed" and peers.cell(crash).startswith("crashed: `AssertionError: ")
    assert peers.judge(lambda model, inputs: Cut(model), name, True)["verdict"] == "silent"
    assert peers.judge(lambda model, inputs: None, name, True) == {"verdict": "not offered"}


def test_page_has_the_tables_of_the_result(peers):
    page, result = peers.PAGE.read_text(), json.loads((ROOT / "results" / "peers.json").read_text())
    assert peers.rewritten(page, result) == page
    assert list(result["models"]) == list(peers.MODELS) and result["versions"]["torch"].startswith("2.13")
    assert peers.rewritten(page, result | {"not_run": {}}) != page
    far, near = ({"dead": {"verdict": "wrong", "difference": d}} for d in (0.9, 0.2))
    assert peers.best({"a": far, "b": near}, "dead") == near["dead"]
