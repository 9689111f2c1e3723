"""The trial of published models: entries are readable without their packages, the procedure tells right from wrong, and
the page says what the result says."""

import ast
import json
import logging
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import leanrnn
from benchmarks.reach import models as reach
from benchmarks.reach import trial
from benchmarks.zoo import Entry
from benchmarks.zoo.packages import CHOSEN, needed, pinned

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("path", sorted((BENCHMARKS / "zoo").glob("*.py")), ids=lambda path: path.name)
def test_recipes_import_packages_only_when_a_model_is_built(path):
    for node in ast.parse(path.read_text()).body:
        names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in getattr(node, "names", [])]
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | {"torch", "benchmarks"}


def test_every_recipe_has_its_packages_pinned():
    assert len(reach.ZOO) == 44 and set(CHOSEN) <= set(reach.ZOO)
    for name, entry in reach.ZOO.items():
        lines = [*needed("newer", [name]), *needed("older", [name])]
        assert all("==" in line for line in lines)
        assert f"{entry.package}==".lower() in " ".join(lines).lower(), name


@pytest.mark.parametrize("which", ["newer", "older"])
def test_packages_are_pinned_to_one_version_each(which):
    names = [line.partition("==")[0].lower().replace("_", "-") for line in pinned(which)]
    assert [name for name in names if names.count(name) > 1] == []


class Closed(nn.Module):
    """Two bidirectional layers that copy.deepcopy cannot copy: a closure as forward, and a logger that refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 6, num_layers=2, bidirectional=True), nn.Linear(12, 3)
        self.log = Refusing("closed")
        self.forward = lambda x: self.head(self.rnn(x)[0])


class Refusing(logging.Logger):
    def __reduce__(self):
        raise TypeError("no")


class Shared(nn.Module):
    """A home-made cell and a layer, added up: one width for the units of both."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.cell, self.u = nn.GRU(4, 6), nn.Linear(4, 6), nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        h, steps = torch.zeros(x.shape[1], self.u.in_features), []
        for step in x:
            h = torch.tanh(self.cell(step) + self.u(h))
            steps.append(h)
        return self.head(self.rnn(x)[0] + torch.stack(steps))


class Given(nn.Module):
    """Returns what it computes: no unit can go."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 6)

    def forward(self, x):
        return self.rnn(x)[0]


def entry(model, **more):
    return Entry("name", "package", "model", "special", lambda: (model().eval(), (torch.randn(5, 2, 4),)), **more)


def test_trial_counts_the_units_of_every_layer_and_direction():
    answer = reach.attempt(entry(Closed))
    assert (answer["result"], answer["removable"], answer["units"]) == ("exact", 24, 24)
    assert answer["difference"] < 1e-6 < answer["effect"] and answer["weights"][1] < answer["weights"][0]
    answer = reach.attempt(entry(Shared, states={"u.weight": (1, 1)}))
    assert (answer["result"], answer["removable"], answer["units"]) == ("exact", 12, 12)
    assert answer["groups"] == {"rnn.l0": 6}


def test_trial_tells_refused_wrong_and_error(monkeypatch):
    answer = reach.attempt(entry(Given))
    assert (answer["result"], answer["removable"], answer["units"]) == ("refused", 0, 6)
    [[width, reason]] = answer["pinned"]
    assert width == "rnn.l0" and reason.startswith("reaches output 0 of the model")

    def off(model, groups, keep):
        small = shrink(model, groups, keep=keep)
        small.head.weight.data += 0.1
        return small

    shrink = leanrnn.shrink
    monkeypatch.setattr("benchmarks.reach.trial.leanrnn.shrink", off)
    assert reach.attempt(entry(Closed))["result"] == "WRONG"
    monkeypatch.setattr("benchmarks.reach.trial.enliven", lambda model: model.head.weight.data.zero_())
    assert reach.attempt(entry(Shared))["why"].endswith("nothing was tried")
    monkeypatch.setitem(reach.ZOO, "absent", entry(lambda: json.loads("no model")))
    assert reach.one("absent")["why"].startswith("JSONDecodeError: ")


def test_differences_are_seen_whatever_they_are():
    a, nan = torch.ones(2, 3), torch.tensor([[1.0, 1.0, float("nan")]] * 2)
    assert trial.difference([a], [a + 0.5]) == 0.5
    assert trial.difference([nan], [nan]) == 0
    for wrong in ([nan], [a, a], [a[:, :2]], []):
        assert trial.difference([a], wrong) == float("inf")
    assert trial.difference([a, a], [a, a[:, :2]]) == 0  # a state that became narrower
    assert trial.difference([a, a], [a, a[:1, :2]]) == float("inf")


EXACT = {"result": "exact", "units": 32, "removable": 24, "weights": [3188, 1412], "version": "1.2.3", "seconds": 1.0}


def small_result(**models):
    environment = {"python": "3.11", "torch": "2.13"}
    return {"command": "python -m benchmarks reach all", "environment": environment, "models": models}


def test_page_has_a_row_for_every_model_and_a_line_for_what_stays():
    pins = [["model.0.rnns.2.module.l0", "reaches output 1 of the model"], ["x", "meets y"]]
    result = small_result(
        fastai_awdlstm=EXACT | {"pinned": pins},
        medaka_gru=EXACT | {"removable": 32, "pinned": []},
        pf_tft={"result": "ERROR", "why": "no answer in 600 s"},
    )
    page = reach.rewritten("top\n<!-- tables: here -->\nstale\n<!-- end of tables -->\nend", result)
    assert "3 models: 2 exact, 1 ERROR. In 1 all recurrent units can go" in page and "87.5 %" in page
    assert "| exact | 24 of 32 | 3,188 → 1,412 |" in page and "| **ERROR** |" in page and "stale" not in page
    assert "- `fastai_awdlstm`, 24 of 32. Interface: `LinearDecoder.forward`" in page
    assert "- `fastai_awdlstm`, 24 of 32. Not explained yet: x: meets y" in page
    assert "- `pf_tft`: no answer in 600 s" in page and "- `medaka_gru`" not in page
    assert reach.rewritten(page, result) == page


def test_page_tells_what_became_of_the_files():
    right = {"written": True, "equal": ["batch", "time"], "fixed": [], "difference": 1e-7, "why": {}, "int8": 0.012}
    result = small_result(
        fastai_awdlstm=EXACT | {"pinned": [], "file": right},
        medaka_gru=EXACT
        | {"pinned": [], "file": right | {"fixed": ["axis 0 of x"], "int8": None, "why": {"int8": "B"}}},
        flair_tagger=EXACT | {"pinned": [], "file": right | {"why": {"lengths": "with batch 2, it differs"}}},
        nf_lstm=EXACT | {"pinned": [], "file": {"written": False, "why": {"onnx": "no operator"}, "original": False}},
        pf_tft={"result": "refused", "units": 4, "removable": 0, "pinned": []},
    )
    page = reach.rewritten("<!-- tables: here -->\nold\n<!-- end of tables -->", result)
    assert "| exported | at other lengths | int8 |" in page and "| yes | yes | yes, 1.2% |" in page
    assert "| yes | batch, time | no |" in page and "| yes | **WRONG** | yes, 1.2% |" in page and "| no |  |  |" in page
    assert "Of 4 exact models, 3 were exported after the cut (75%). 1 of the files take every length" in page
    assert "1 have one fixed, 1 are wrong at one; 2 were written in eight bits." in page
    assert "- `medaka_gru`, fixed: axis 0 of x" in page and "- `nf_lstm`, not exported: no operator" in page
    assert "int8: no" in reach.printed(result["models"]) and "exported: no" in reach.line(
        "nf_lstm", result["models"]["nf_lstm"]
    )


def test_page_has_the_table_of_the_result_and_explains_all_that_stays():
    page, result = reach.PAGE.read_text(), json.loads((reach.RESULTS / "reach.json").read_text())
    assert reach.rewritten(page, result) == page
    assert list(result["models"]) == list(reach.ZOO)
    for name, answer in result["models"].items():
        notes, unexplained = reach.explained(name, answer)
        assert answer["result"] in ("exact", "refused") and not unexplained
        assert notes or answer["removable"] == answer["units"]
        file = answer.get("file", {"why": {}})  # as results have it since exports are tried too
        assert "raw" not in file and "lengths" not in file["why"]


def test_paths_are_those_of_packages():
    text = "at /a/b/lib/python3.11/site-packages/onmt/modules/x.py:18: shape '[2, 1]' and/or\n /somewhere/y.py:3"
    assert reach.short(text) == "at onmt/modules/x.py:18: shape '[2, 1]' and/or y.py:3"
    assert reach.short(f"at {BENCHMARKS}/zoo/graphs.py:2") == "at benchmarks/zoo/graphs.py:2"


def test_interrupted_run_goes_on_with_the_same_code_only(tmp_path, monkeypatch, capsys):
    partial, asked = tmp_path / "reach.partial.json", []

    def apart(name):
        asked.append(name)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return EXACT | {"pinned": [], "result": "ERROR" if name == "b" else "exact"}

    monkeypatch.setattr(reach, "apart", apart)
    monkeypatch.setattr(reach, "ZOO", dict.fromkeys("abc"))
    with pytest.raises(KeyboardInterrupt):
        reach.all_models(partial)
    assert list(reach.all_models(partial)) == ["a", "b", "c"] and asked == ["a", "b", "b", "c"]
    reach.all_models(partial)
    assert asked[4:] == ["b"]  # what failed is tried again
    monkeypatch.setattr(reach, "fingerprint", lambda: "other")
    reach.all_models(partial)
    assert asked[5:] == ["a", "b", "c"] and "24 of 32" in capsys.readouterr().out
