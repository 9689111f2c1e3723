"""The training loop: what it computes, and that nothing is lost and nothing changes however often it is killed."""

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import leanrnn
from leanrnn.errors import LeanRNNError, RunError
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.model import LanguageModel, language_model, load_language_model
from leanrnn.lab.language.perplexity import perplexity
from leanrnn.lab.precision import has_bfloat16
from leanrnn.lab.runs import Run
from tests.support.tiny import BUDGET, DENSE, SPARSE, WORDS, epochs, go, settings, tiny_text

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    events = epochs(go(folder))
    assert len({tuple(event.widths.values()) for event in events}) >= 3, "the run is to lose components on the way"
    return folder


def same(one: Path, other: Path) -> bool:
    return (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def timeless(folder: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if "second" not in key} for line in lines]


def test_a_run_learns_shrinks_and_ends_in_a_file(undisturbed):
    result = json.loads((undisturbed / "result.json").read_text())
    assert result["valid"] < WORDS / 3 and result["embedding"] < 12 and result["widths"] != [16, 14]
    model = load_language_model(undisturbed / "model.safetensors")
    assert list(model.widths) == result["widths"]
    assert perplexity(model, tiny_text().valid, 4, 5) == pytest.approx(result["valid"], rel=1e-6)
    lines = [json.loads(line) for line in (undisturbed / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == [1, 2, 3, 4]
    assert all(line["tokens_per_second"] > 0 for line in lines if line["kind"] == "interval")
    assert any(line["strength"] > 0 for line in lines if line["kind"] == "interval")


def test_stopping_and_going_on_changes_nothing(undisturbed, tmp_path):
    stops = 0
    while not (tmp_path / "result.json").exists():
        go(tmp_path, steps=23)
        stops += 1
    assert stops > 10 and same(undisturbed, tmp_path)
    before, after = (json.loads((f / "result.json").read_text()) for f in (undisturbed, tmp_path))
    assert before | {"seconds": 0} == after | {"seconds": 0}
    assert timeless(undisturbed) == timeless(tmp_path)


@pytest.fixture(scope="module")
def budgeted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("budgeted")
    go(folder, BUDGET)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("penalty", 37), ("budget", 8)])  # 17 places and 20 moments, 4 and 4
def test_killing_at_any_moment_changes_nothing(kind, kills, undisturbed, budgeted, tmp_path):
    """While a checkpoint is written, in the middle of a compaction, and at moments of chance."""
    command = [sys.executable, "-m", "tests.support.killing", tmp_path, kind]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == kills
    runs, whole = list(tmp_path.iterdir()), {"penalty": undisturbed, "budget": budgeted}[kind]
    assert runs
    for run in runs:
        assert same(whole, run) and timeless(whole) == timeless(run)


def test_a_run_ends_within_its_budget_and_says_how_far_it_is(budgeted, tmp_path):
    lines = [json.loads(line) for line in (budgeted / "metrics.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["kind"] == "epoch"]
    assert [line["phase"] for line in told] == ["full size", "shrinking", "shrinking", "recovering"]
    assert told[0]["used"] == {"mult_adds": 2} and 0.9 < told[-1]["used"]["mult_adds"] <= 1
    result = json.loads((budgeted / "result.json").read_text())
    assert result["used"] == told[-1]["used"] and result["difference"] < 1e-5
    model = load_language_model(budgeted / "model.safetensors")
    words = tiny_text().train[:30].view(15, 2)
    full, small = (leanrnn.measure(each, words, seconds=0).mult_adds for each in (language_model(BUDGET, WORDS), model))
    assert small / full == pytest.approx(result["used"]["mult_adds"] / 2)


@pytest.mark.parametrize(
    "config",
    [
        replace(BUDGET, follow=False, budget="weights=1500, floors=4"),
        replace(BUDGET, strength=1.0, mode="loss", group_threshold=0.05),
        replace(BUDGET, strength=1.0, mode="proximal", penalty="l1", compact=20, group_threshold=0.05),
        replace(BUDGET, average=0.98, best=True),
        replace(BUDGET, cell="gru", tied=True, embedding=14),
        replace(BUDGET, cell="rhn", widths=(16,), depth=2, drop_recurrent=0.0, rate=0.3),
    ],
    ids=["weights", "penalty in the loss", "l1", "average and best", "tied gru", "rhn"],
)
def test_a_budget_goes_with_everything_and_on_after_a_stop(config, tmp_path):
    events = epochs(go(tmp_path / "whole", config))
    while not (tmp_path / "parts" / "result.json").exists():
        go(tmp_path / "parts", config, steps=41)
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert timeless(tmp_path / "whole") == timeless(tmp_path / "parts")
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert max(result["used"].values()) <= 1 and result["difference"] < 1e-4
    assert config.strength or max(result["used"].values()) > 0.85  # a penalty may take more than is asked for
    assert result["valid"] == pytest.approx(min(e.valid for e in events[2:]) if config.best else events[-1].valid)
    if config.strength:
        lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
        strengths = [line["strength"] for line in lines if line["kind"] == "interval"]
        assert strengths[0] == strengths[-1] == 0 < max(strengths) != config.strength  # found by itself


def test_a_budget_that_is_none_is_refused_before_the_first_step(tmp_path):
    for budget, told in {
        "mult_adds=20%, floors=10": r"are not possible\. The least is .* with the widths",
        "mult_adds": "no part of a budget",
        "milliseconds=50%": "cannot have a budget of milliseconds",
    }.items():
        with pytest.raises(LeanRNNError, match=told):
            go(tmp_path / "run", replace(BUDGET, budget=budget))
        shutil.rmtree(tmp_path / "run")
    with pytest.raises(LeanRNNError, match=r"warm_up 0\.8 and shrink 0\.3 is not possible"):
        go(tmp_path / "run", replace(BUDGET, warm_up=0.8, shrink=0.3))


def test_dense_runs_can_be_gone_on_from(tmp_path):
    go(tmp_path / "dense", replace(DENSE, epochs=2))
    start = {"start": tmp_path / "dense"}
    tuned = epochs(go(tmp_path / "tuned", replace(SPARSE, epochs=2, penalised=0), **start))
    assert tuned[0].valid < epochs(go(tmp_path / "new", replace(SPARSE, epochs=1, penalised=0)))[0].valid
    pruned = go(tmp_path / "pruned", replace(DENSE, epochs=1, keep_widths=(9, 8)), **start)
    assert list(epochs(pruned)[0].widths.values()) == [12, 9, 8]
    again = go(tmp_path / "again", replace(DENSE, epochs=1, seed=9), start=tmp_path / "pruned" / "model.safetensors")
    assert list(epochs(again)[0].widths.values()) == [12, 9, 8]
    with pytest.raises(RunError, match="keep_widths cuts a trained model"):
        go(tmp_path / "a", replace(DENSE, keep_widths=(9, 8)))
    with pytest.raises(RunError, match="keep_widths has 1 widths for 2 layers"):
        go(tmp_path / "b", replace(DENSE, keep_widths=(9,)), **start)


def test_a_teacher_is_part_of_the_loss(tmp_path):
    """Of another cell and width; interrupted in the middle of an epoch, where its state is carried on too."""
    go(tmp_path / "teacher", replace(DENSE, cell="gru", widths=(20,), epochs=3))
    config, taught = replace(SPARSE, epochs=2, penalised=1, taught=0.5), {"teacher": tmp_path / "teacher"}
    events = epochs(go(tmp_path / "whole", config, **taught))
    go(tmp_path / "parts", config, steps=11, **taught)
    go(tmp_path / "parts", config, steps=30, **taught)
    go(tmp_path / "parts", config, **taught)
    assert same(tmp_path / "whole", tmp_path / "parts")
    labels_alone = replace(config, taught=0.0)
    go(tmp_path / "alone", labels_alone)
    go(tmp_path / "labels", labels_alone, **taught)
    assert not same(tmp_path / "whole", tmp_path / "alone") and same(tmp_path / "labels", tmp_path / "alone")
    only = epochs(go(tmp_path / "only", replace(DENSE, taught=1.0, epochs=3), **taught))
    assert only[-1].valid < WORDS / 2 and events[-1].valid < WORDS  # what it knows is from the teacher alone


def test_a_teacher_knows_the_same_words(tmp_path):
    go(tmp_path / "teacher", replace(DENSE, epochs=1))
    other = replace(tiny_text(), words=tuple(f"word{i}" for i in range(WORDS)))
    with Run.open(tmp_path / "run", settings(DENSE)) as run, pytest.raises(RunError, match="trained on other words"):
        list(train(DENSE, other, run, teacher=tmp_path / "teacher"))


def test_l1_unveils_components_at_the_end(tmp_path):
    config = replace(SPARSE, penalty="l1", strength=0.006, group_threshold=0.0, threshold=0.05, compact=0, penalised=0,
                     scope="recurrent", mode="loss")  # fmt: skip
    go(tmp_path / "whole", config)
    events = [*epochs(go(tmp_path, config, steps=200)), *epochs(go(tmp_path, config))]
    assert len(events) == config.epochs and same(tmp_path / "whole", tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert events[-1].widths["layers.0.l0"] == 16 and result["difference"] < 1e-5
    assert result["widths"] == [events[-1].alive[f"layers.{i}.l0"] for i in (0, 1)] != [16, 14]


def test_a_part_of_the_penalty_stays_on(tmp_path):
    config = replace(SPARSE, afterwards=0.25)
    go(tmp_path, config)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["kind"] == "interval"]
    assert {line["strength"] for line in told if line["epoch"] < 3} == {config.strength}
    assert {line["strength"] for line in told if line["epoch"] > 3} == {config.strength / 4}


@pytest.mark.parametrize("config", [SPARSE, replace(SPARSE, afterwards=0.25, follow=False)])
def test_recurrent_dropout_begins_when_the_penalty_is_lowered(tmp_path, config):
    config = replace(config, drop_recurrent=0.4)
    for more in ({}, {"steps": 77}):  # told, and told again after every stop
        folder = tmp_path / str(len(more))
        found: dict[int, list[float]] = {}
        while not (folder / "result.json").exists():
            go(folder, config, **more)
            with Run.open(folder, settings(config)) as run:
                data = run.latest().data
            found[data["epoch"]] = data["dropout"]
        assert found[4][-1] == 0.4
        assert found[4][0] == pytest.approx(0.1)
        assert not config.follow or found[4][1] < found[4][0]
        assert not more or found[2][-1] == 0
    assert same(tmp_path / "0", tmp_path / "1")


@pytest.mark.parametrize(
    "config",
    [
        DENSE,
        SPARSE,
        replace(SPARSE, afterwards=0.25),
        replace(SPARSE, afterwards=0.25, penalised=1, best=True),
        replace(SPARSE, penalised=0),
        replace(SPARSE, penalised=0, compact=0, mode="loss", scope="recurrent"),
    ],
    ids=["dense", "recovering", "penalised", "best", "throughout", "cut at the end"],
)
def test_the_average_is_what_counts(tmp_path, config):
    config = replace(config, average=0.98, rate=1.0)
    events = epochs(go(tmp_path / "whole", config))
    alone = epochs(go(tmp_path / "alone", replace(config, average=0.0)))
    begun = config.penalised if config.sparse else 0
    assert [e.valid for e in events[:begun]] == [e.valid for e in alone[:begun]]  # the steps are the same ones
    assert [e.train for e in events] == [e.train for e in alone]
    assert events[-1].valid < alone[-1].valid
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    # What died since the last cut was not quite zero in the average, and is now.
    last = min(e.valid for e in events) if config.best else events[-1].valid
    assert result["valid"] == pytest.approx(last, rel=1e-3)
    alive = events[-1].widths | events[-1].alive
    assert result["difference"] < 1e-4 and result["widths"] == list(alive.values())[1:]
    while not (tmp_path / "parts" / "result.json").exists():
        go(tmp_path / "parts", config, steps=61)
    assert same(tmp_path / "whole", tmp_path / "parts")


def test_the_average_by_hand(tmp_path):
    """Of a short run: every step's weights, weighted as the setting says."""
    config = replace(DENSE, average=0.9, epochs=1, compact=0)
    seen = []

    def look(optimizer, args, kwargs):
        seen.append([p.detach().clone() for group in optimizer.param_groups for p in group["params"]])

    handle = register_optimizer_step_post_hook(look)
    try:
        go(tmp_path, config)
    finally:
        handle.remove()
    model = load_language_model(tmp_path / "model.safetensors")
    trained = [p for p in model.parameters() if p.requires_grad]
    average = [p.clone() for p in language_model(config, WORDS).parameters() if p.requires_grad]
    for n, weights in enumerate(seen):
        keep = min(0.9, (n + 1) / (n + 10))
        average = [a * keep + w * (1 - keep) for a, w in zip(average, weights, strict=True)]
    for expected, found in zip(average, trained, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    with pytest.raises(RunError, match=r"the loss of step \d+ is (nan|inf).*Try a smaller learning rate"):
        go(tmp_path, replace(DENSE, rate=3e38, clip=1e30))


def test_texts_that_are_too_short(tmp_path):
    with pytest.raises(RunError, match=r"the training text has .*no window of 400 and one more"):
        go(tmp_path, replace(DENSE, window=400))


@pytest.mark.parametrize(("part", "name"), [("valid", "validation"), ("test", "test")])
def test_what_is_judged_by_is_looked_at_before_training(tmp_path, part, name):
    text = tiny_text()
    short = replace(text, **{part: getattr(text, part)[: DENSE.batch * DENSE.window]})
    with pytest.raises(RunError, match=f"the {name} text has .*Give more text"), Run.open(tmp_path / "run", {}) as run:
        next(train(DENSE, short, run))


def test_one_step_of_the_paper(tmp_path):
    """Against plain torch: the loss is summed over the window and averaged over the streams, the penalty is part of
    it, the gradient of both is clipped, then comes SGD, then the threshold, on everything."""
    config = replace(
        SPARSE, mode="loss", epochs=1, penalised=0, keep=1.0, group_threshold=0.0, threshold=0.05, clip=0.7,
        scope="recurrent", compact=0,
    )  # fmt: skip
    text = replace(tiny_text(), train=tiny_text().train[: 4 * 6])
    with Run.open(tmp_path, settings(config)) as run:
        list(train(config, text, run))
        trained = load_language_model(run.checkpoints / "00000001" / "model.safetensors")
    model = language_model(config, WORDS)
    rows = text.train.view(4, 6).t()
    scores, _ = model(rows[:5])
    loss = sum(torch.nn.functional.cross_entropy(scores[:, i], rows[1:, i], reduction="sum") for i in range(4)) / 4
    for name, width in (("layers.0", 16), ("layers.1", 14)):
        layer = model.get_submodule(name)
        reader = model.layers[1].weight_ih_l0 if name == "layers.0" else model.head.weight
        for k in range(width):
            rows_of = [layer.weight_ih_l0[k::width], layer.weight_hh_l0[k::width]]
            squares = [part.square().sum() for part in (*rows_of, layer.weight_hh_l0[:, k], reader[:, k])]
            loss = loss + config.strength * (torch.stack(squares).sum() + 1e-8).sqrt()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    for name, parameter in model.named_parameters():
        step = 0 if parameter.grad is None else config.rate * parameter.grad
        wanted = parameter.detach() - step
        wanted = torch.where(wanted.abs() < config.threshold, 0, wanted)
        assert torch.allclose(trained.get_parameter(name), wanted, atol=1e-6), name


def test_perplexity_is_that_of_the_whole_text_however_it_is_cut():
    text, model = tiny_text(), LanguageModel(WORDS, 6, (5, 4)).double().eval()
    rows = text.test[:, None]
    with torch.no_grad():
        scores = model(rows[:-1])[0]
    wanted = math.exp(torch.nn.functional.cross_entropy(scores[:, 0], rows[1:, 0]).item())
    for window in (1, 7, 64, 1000):
        assert perplexity(model, text.test, 1, window, whole=True) == pytest.approx(wanted, rel=1e-9)
    assert not model.training


def test_a_processor_without_half_the_bits_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with pytest.raises(RunError, match="no products in bfloat16"):
        go(tmp_path, replace(DENSE, precision="bfloat16"))
    assert has_bfloat16(torch.device("cuda"))


@pytest.mark.skipif(not has_bfloat16(torch.device("cpu")), reason="this processor has no products in bfloat16")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn", "rhn"])
def test_half_the_bits_learn_as_much(cell, tmp_path):
    """Products in bfloat16: about the same perplexity, another run all the same, gone on with to the same bits."""
    sizes = {"widths": (12,), "depth": 2} if cell == "rhn" else {}
    whole = replace(SPARSE, cell=cell, epochs=2, penalised=0, rate=0.2, **sizes)
    half = replace(whole, precision="bfloat16")
    for name, config in {"whole": whole, "half": half}.items():
        go(tmp_path / name, config)
    one, other = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "half"))
    assert other["valid"] != one["valid"] and other["valid"] == pytest.approx(one["valid"], rel=0.1)
    go(tmp_path / "parts", half, steps=30)
    go(tmp_path / "parts", half)
    assert same(tmp_path / "half", tmp_path / "parts")
    model = load_language_model(tmp_path / "half" / "model.safetensors")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
