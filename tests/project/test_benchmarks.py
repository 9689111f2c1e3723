"""The benchmarks run, at a size that says nothing about time, and memory is as promised."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from benchmarks.common import DOCS, between_marks
from benchmarks.cost.discover import growth, measure
from benchmarks.peers import compare
from benchmarks.peers.models import ALIVE, DEAD, HIDDEN, MODELS, Outputs, build, lstm
from benchmarks.peers.tools import TOOLS, Cut, leanrnn_keep
from benchmarks.ptb import latency, train
from benchmarks.ptb import runs as ptb
from benchmarks.published import quality, speech
from benchmarks.speed import bits
from benchmarks.speed.fig1 import products
from benchmarks.squad import runs as squad
from benchmarks.squad import train as squad_train
from leanrnn.lab import RECIPES, Config

ROOT = Path(__file__).parents[2]


def run(program: str, out: Path, *options: str) -> dict:
    command = [sys.executable, "-m", "benchmarks", *program.split(), "--out", str(out), *options]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return json.loads(out.read_text())


def test_step_overhead_needs_less_than_a_copy_of_the_largest_matrix(tmp_path):
    options = ["--widths", "128", "--vocabulary", "8000", "--batch", "2", "--length", "2", "--repeats", "2"]
    result = run("cost step", tmp_path / "overhead.json", *options)
    size = result["sizes"][0]
    assert 0 < size["extra_bytes"] <= size["largest_matrix_bytes"]
    assert size["ratio"]["median"] > 0 and result["environment"]["torch"]
    assert result["command"].startswith("python -m benchmarks cost step --out ")
    assert result["command"].endswith(" ".join(options))


def test_discover_cost_measures_and_fits_an_exponent():
    cost = measure("discover and shrink", "rhn-4", 9, 2, meta=False)
    assert cost["seconds"] > 0 and cost["extra_bytes"] >= 0 and cost["operators"] > 100
    squares = growth("test", [2, 4, 8], "axes", lambda n: {"axes": n, "seconds": n**2})
    assert abs(squares["exponent"] - 2) < 1e-9


def test_leanrnn_is_correct_on_the_models_of_the_comparison():
    assert len(MODELS) == 12
    for name in MODELS:
        for way in TOOLS["leanrnn"].values():
            for dead in (True, False):
                outcome = compare.judge(way, name, dead)
                before, after = outcome["units"]
                assert (outcome["verdict"], 2 * after) == ("correct", before), (name, outcome)


def test_dead_units_of_the_comparison_are_dead_and_the_others_alive():
    for units, noticed in ((DEAD, False), (ALIVE[:1], True)):
        model, inputs = build("LSTM, head on all outputs")
        before = model(*inputs)
        model.head.weight.data[:, list(units)] += 1.0
        assert torch.equal(before, model(*inputs)) != noticed


def test_comparison_tells_wrong_crashed_silent_and_not_offered():
    def shifted(model, inputs):
        cut = leanrnn_keep(model, inputs)
        cut.small.head.weight.data += 0.1
        return cut

    def raising(model, inputs):
        assert len(ALIVE) == HIDDEN
        return Cut(Outputs(lstm()))

    def ours(model, inputs):
        return compare.cell(None)

    name = "LSTM, head on all outputs"
    with pytest.raises(TypeError):
        compare.judge(ours, name, True)
    wrong = compare.judge(shifted, name, True)
    assert wrong["verdict"] == "wrong" and wrong["difference"] > compare.ALLOWED
    crash = compare.judge(raising, name, True)
    assert crash["verdict"] == "crashed" and compare.cell(crash).startswith("crashed: `AssertionError: ")
    assert compare.judge(lambda model, inputs: Cut(model), name, True)["verdict"] == "silent"
    assert compare.judge(lambda model, inputs: None, name, True) == {"verdict": "not offered"}


def test_page_has_the_tables_of_the_result():
    page, result = compare.PAGE.read_text(), json.loads((ROOT / "results" / "peers.json").read_text())
    assert compare.rewritten(page, result) == page
    assert list(result["models"]) == list(MODELS) and result["versions"]["torch"].startswith("2.13")
    assert compare.rewritten(page, result | {"not_run": {}}) != page
    far, near = ({"dead": {"verdict": "wrong", "difference": d}} for d in (0.9, 0.2))
    assert compare.best({"a": far, "b": near}, "dead") == near["dead"]


def test_recordings_belong_to_one_language_of_one_program():
    share = "usr/share"
    paths = {
        f"{share}/klettres/pt_BR/alpha/a.ogg": ("klettres-pt_BR", "pt"),
        f"{share}/ktuberling/sounds/de/hat.ogg": ("ktuberling-de", "de"),
        f"{share}/asterisk/sounds/it_IT_m_Carlo/digits/1.wav": ("asterisk-it_IT_m_Carlo", "it"),
        f"{share}/tuxpaint/stamps/animals/birds/owl_desc_fr.ogg": ("tuxpaint-fr", "fr"),
        "anna/chapter/1.flac": ("anna", "anna"),
    }
    for path, (name, language) in paths.items():
        assert speech.set_of(path) == name and speech.language(name) == language
    for noise in ("tuxpaint/stamps/animals/birds/owl.ogg", "asterisk/sounds/it_IT_m_Carlo/silence/1.wav"):
        assert speech.set_of(f"{share}/{noise}") is None


def test_no_language_is_both_learned_and_held_out():
    names = [f"{program}-{tongue}" for program in ("klettres", "tuxpaint") for tongue in ("ar", "ca", "de", "fr_CA")]
    new = speech.held_out(names)
    tongues = {speech.language(name) for name in new}
    assert tongues == {"ca"} and new == {name for name in names if name.endswith("-ca")}


def test_speakers_for_tuning_are_neither_learned_nor_judged(tmp_path):
    names = [f"klettres-{tongue}" for tongue in ("ar", "bg", "ca", "da", "de")]
    assert speech.for_tuning(names) == {"klettres-ca"}
    mel = np.zeros((4, 2), np.float32)
    keys = [
        f"{kind}|{name}|{speed}" for name in names for kind, speed in (("train", 1.0), ("train", 0.9), ("sentences", 1))
    ]
    np.savez(tmp_path / "mels.npz", **{key: mel for key in [*keys, "speakers|klettres-fr|1"]})
    found = speech.read(tmp_path)
    assert list(found.tuning) == ["klettres-ca"] and list(found.speakers) == ["klettres-fr"]
    assert (
        set(found.train) == set(found.sentences) == {*names} - {"klettres-ca"} and len(found.train["klettres-ar"]) == 2
    )


def test_utterances_share_no_sound():
    mel = np.arange(1200, dtype=np.float32)[:, None].repeat(2, 1)
    found = speech.utterances(mel)
    assert found.shape == (2, 5, 160, 2) and found[0].max() < found[1].min()
    assert speech.utterances(mel[:100]).shape == (0, 5, 160, 2)


def test_equal_error_rate_of_known_scores():
    rate = quality.equal_error
    assert rate(np.array([0.8, 0.9]), np.array([0.1, 0.2])) == 0.0
    assert rate(np.array([0.1, 0.2]), np.array([0.8, 0.9])) == 1.0
    assert rate(np.array([0.3, 0.6, 0.7, 0.8]), np.array([0.1, 0.2, 0.25, 0.65])) == 0.25


def test_a_model_is_judged_as_near_as_it_is():
    torch.manual_seed(0)
    mix = torch.nn.functional.normalize(torch.randn(2, 8), dim=1)
    sets = {name: np.random.default_rng(i).normal(i, 0.1, (3, 5, 160, 2)) for i, name in enumerate(("a", "b"))}
    sets = {name: each.astype(np.float32) for name, each in sets.items()}

    def embed(readings, noise=0.0):
        found = torch.tanh(readings.mean(1) - 0.5) @ mix
        return torch.nn.functional.normalize(found + noise * torch.randn_like(found), dim=1)

    wanted = quality.said(embed, sets)
    itself = quality.judge(wanted, wanted, sets)
    assert (
        itself["cosine"] == pytest.approx(1) and itself["equal_error_rate"] == 0 and itself["nearest_of_same_set"] == 1
    )
    assert quality.judge(quality.said(lambda x: embed(x, 1.0), sets), wanted, sets)["cosine"] < 0.9


def test_seeds_are_told_as_mean_and_deviation():
    told = quality.mean_and_spread
    assert told([{"a": 0.5}], "a", 1, 3) == "0.500" and told([{"a": 0.01}, {"a": 0.03}], "a", 100, 1) == "2.0 ± 1.4"


def test_page_of_the_published_model_has_the_tables_of_the_result():
    page, result = (
        (DOCS / "a-published-model.md").read_text(),
        json.loads((ROOT / "results/published.json").read_text()),
    )
    assert between_marks(page, quality.tables(result)) == page


def test_the_paper_s_speedup_is_measured_beside_its_limit(tmp_path):
    options = ["--runs", "4", "--scale", "0.02", "--words", "60"]
    known = run("speed paper", tmp_path / "speedup.json", *options)
    ((kind, result),) = known["processors"].items()
    assert kind.startswith(result["environment"]["instructions"])
    assert result["models"]["373, 315"]["widths"] == [7, 6] and len(result["measured"]) == 6
    assert result["measured"]["dense float32"]["speedup"] == 1.0
    assert all(each["gflops_of_the_products_alone"] > 0 for each in result["models"].values())


def test_rows_and_columns_against_zeros_anywhere(tmp_path):
    result = run("speed fig1", tmp_path / "fig1.json", "--hidden", "12", "--rounds", "2")
    ((_, lines),) = result["sizes"].items()
    assert set(lines) == {"structured", "torch", "scipy"} and result["two_of_four"]
    assert (tmp_path / "fig1.svg").stat().st_size > 5000


def test_products_with_less_weights_are_what_they_say():
    calls = products(10, 3, 0.75)
    torch.testing.assert_close(torch.as_tensor(calls["scipy"]()), calls["torch"]())
    assert calls["structured"]().shape == (20, 3) and calls["dense"]().shape == (40, 3)


def test_highway_steps_are_timed(tmp_path):
    options = ["--sizes", "8x2", "--steps", "3", "--batch", "2", "--rounds", "1"]
    page = (ROOT / "docs" / "reproduce.md").read_text()
    result = run("speed highway", tmp_path / "steps.json", *options)
    assert [row["way"] for row in result["measured"]] == ["autograd", "own"]
    assert (ROOT / "docs" / "reproduce.md").read_text() == page  # of results/ alone


def test_recurrent_steps_are_timed(tmp_path):
    options = ["--widths", "8", "--steps", "3", "--batch", "2", "--rounds", "1", "--precisions", "float32"]
    page = (ROOT / "docs" / "reproduce.md").read_text()
    result = run("speed recurrent", tmp_path / "steps.json", *options)
    assert [(row["cell"], row["taken"]) for row in result["measured"]] == [
        ("lstm", False),
        ("gru", True),
        ("rnn", True),
    ]
    assert (ROOT / "docs" / "reproduce.md").read_text() == page  # of results/ alone


def test_runs_of_all_cells_have_commands():
    assert all(recipe in RECIPES for runs in ptb.SIZES.values() for recipe, _ in runs.values())
    assert train.command("rhn-small", "direct", [120])[-4:] == ["--embedding", "120", "--widths", "120"]
    assert train.command("gru-small", "direct", [150, 90, 80])[-5:] == ["--embedding", "150", "--widths", "90", "80"]
    with pytest.raises(SystemExit, match="give the widths"):
        train.command("gru-small", "direct", [])
    assert ptb.mult_adds([830, 830], ptb.dense_of("rhn")) == 830 * 10_000 + 2 * 830 * 11 * 830


def test_models_of_runs_are_timed_at_the_widths_they_ended_with(tmp_path):
    run = {"config": Config(cell="rhn", depth=2, tied=True, widths=(200,)).to_json()}
    runs = {name: run | {"embedding": width, "widths": [width]} for name, width in {"dense": 9, "lean": 4}.items()}
    found = latency.measured(runs, 30, 0.0)
    assert found["lean"]["ratio"] == found["dense"]["milliseconds"] / found["lean"]["milliseconds"]
    assert "ratio" not in found["dense"] and len(found["dense"]["quartiles"]) == 2
    graph = onnx.load(latency.exported(tmp_path, "lean", runs["lean"], 30)).graph
    assert graph.input[1].type.tensor_type.shape.dim[2].dim_value == 4


def test_ways_to_have_a_gru_in_eight_bits(tmp_path):
    found = json.loads((ROOT / "results" / "gru_bits.json").read_text())
    page = (DOCS / "deploy.md").read_text()
    assert between_marks(page, bits.rows(found), "gru-bits,") == page
    config = Config(cell="gru", embedding=6, widths=(7, 5))
    files = bits.ways(bits.wide(config, 30, tmp_path, widths=(7, 5)), tmp_path)
    kinds = {name: {node.op_type for node in onnx.load(path).graph.node} for name, path in files.items()}
    assert "GRU" in kinds["weights"] & kinds["rounded"] and "GRU" not in kinds["loop"]
    assert "DynamicQuantizeLinear" in kinds["rounded"] - kinds["weights"]
    times = bits.clock(files, 0.0)
    assert [len(each) for each in times.values()] == [3] * 4 and all(t["median"] > 0 for t in times["loop"])


def test_runs_of_question_answering_have_commands():
    assert all(recipe in RECIPES for recipe, _ in squad.RECIPES.values())
    assert "--precision" not in squad_train.command("lean", 3000, "float32")
    words = squad_train.command("lean", 3000, "bfloat16")
    assert words[-2:] == ["--penalised", "1800"] and words[words.index("--precision") + 1] == "bfloat16"
    averages = [
        float(words[words.index("--average") + 1]) for words in (words, squad_train.command("dense", 10_000, "float32"))
    ]
    assert averages == [0.9967, 0.999]  # the paper's, at its number of steps
    runs, page = squad.written_down(), (ROOT / "docs" / "reproduce.md").read_text()
    assert squad.score_table(runs) in page and squad.deployed_table(runs) in page
    assert all(found["command"] in page for found in runs.values())
