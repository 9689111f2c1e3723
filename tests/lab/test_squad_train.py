"""A tiny set of questions is learned, interrupted, made smaller, exported and asked."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import leanrnn
from leanrnn.cli.main import main
from leanrnn.errors import BudgetError
from leanrnn.lab import RECIPES
from leanrnn.lab.average import update_
from leanrnn.lab.events import Answered, Evaluation
from leanrnn.lab.precision import has_bfloat16
from leanrnn.lab.runs import Run
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Squad, read
from leanrnn.lab.squad.finish import all_scores
from leanrnn.lab.squad.job import begun, example, load
from leanrnn.lab.squad.loop import train
from tests.support.asked import TINY, write_squad

SPARSE = replace(TINY, strength=0.01, group_threshold=0.3, compact=10, steps=60, evaluate=30, keep=0.9, by_cost=True)
BUDGET = replace(TINY, budget="mult_adds=88%, floors=3", steps=40, keep=0.9, evaluate=20)
SMALL = "--width 6 --steps 6 --batch 16 --evaluate 3 --judged 5 --threads 1 --word-count 0 --character-count 0".split()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEANRNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_squad(tmp_path / "data")
    return tmp_path


@pytest.fixture
def data(folder: Path) -> Squad:
    return read(TINY, folder / "data")


def go(folder: str, config: SquadConfig, data: Squad, steps: int | None = None, **more: Any) -> dict[str, Any] | None:
    """Train to the end, or for so many steps; the result."""
    left = [steps if steps is not None else -1]

    def stopped() -> bool:
        left[0] -= 1
        return left[0] == 0

    with Run.open(Path(folder), {"config": config.to_json()}) as run:
        for event in train(config, data, run, stopped=stopped, **more):
            assert isinstance(event, Answered | Evaluation)
        return run.result()


def tensors(folder: str) -> dict[str, torch.Tensor]:
    return load(Path(folder) / "model.safetensors").state_dict()


def test_answers_its_own_questions(data):
    result = go("run", TINY, data)
    assert result is not None and result["exact"] == result["f1"] == 100.0
    assert result["f1_by_evaluation"][-1] == 100.0 and result["difference"] == 0.0
    answers = json.loads(Path("run/predictions.json").read_text())
    assert answers == {name: truth[0] for name, truth in zip(data.dev.ids, data.dev.truths, strict=True)}

    fine = replace(TINY, steps=50, strength=0.03, last_threshold=0.05, average=0.8, evaluate=50)
    smaller = go("fine", fine, data, start=Path("run"))
    assert smaller is not None and sum(smaller["widths"].values()) < 8 * 12 and smaller["difference"] < 1e-4


def test_compaction_cuts_model_moments_and_average_alike(data):
    result = go("run", SPARSE, data)
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    intervals = [line for line in lines if line["kind"] == "interval"]
    assert result is not None and 0 < result["difference"] < 1e-4
    learned = [name for name in result["widths"] if not name.startswith("contextual")]
    assert sum(intervals[-1]["widths"][name] for name in learned) < 72  # already in training
    assert all(result["widths"][name] == 12 for name in ("contextual.fwd.l0", "contextual.bwd.l0"))
    small = load(Path("run/model.safetensors"))
    assert small.widths == result["widths"] and small.weights_without_embeddings == result["weights_without_embeddings"]
    assert result["exact"] > 60


HALF = pytest.param(
    replace(SPARSE, precision="bfloat16"),
    marks=pytest.mark.skipif(not has_bfloat16(torch.device("cpu")), reason="this processor has no bfloat16"),
)


@pytest.mark.parametrize(
    "config",
    [SPARSE, replace(TINY, steps=40, keep=0.8, evaluate=15), HALF, BUDGET, replace(BUDGET, strength=1.0)],
    ids=["sparse", "dense", "half", "budget", "budget with a penalty"],
)
def test_interrupted_runs_arrive_at_the_same_bits(data, config):
    assert go("whole", config, data)
    assert go("parts", config, data, steps=7) is None
    assert go("parts", config, data, steps=16) is None
    assert go("parts", config, data)
    whole, parts = tensors("whole"), tensors("parts")
    assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)
    kept = [json.loads(Path(f"{name}/result.json").read_text()) for name in ("whole", "parts")]
    for each in kept:
        del each["seconds"]
    assert kept[0] == kept[1]


def test_a_run_ends_within_its_budget(data):
    result = go("run", BUDGET, data)
    assert result is not None and 0.9 < result["used"]["mult_adds"] <= 1 and 0 < result["difference"] < 1e-4
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [line["phase"] for line in lines if line["kind"] == "evaluation"] == ["shrinking", "recovering"]
    assert all(width >= 3 for width in result["widths"].values())
    with pytest.raises(BudgetError, match="mult-adds are not possible"):
        go("other", replace(BUDGET, budget="mult_adds=5%"), data)


def test_a_teacher_is_part_of_the_loss(data):
    go("teacher", replace(TINY, steps=40), data)
    config = replace(TINY, steps=12, width=8, keep=0.8, taught=1.0, evaluate=12)
    taught = {"teacher": Path("teacher")}
    assert go("taught", config, data, **taught) and go("alone", config, data)
    assert go("parts", config, data, steps=5, **taught) is None and go("parts", config, data, **taught)
    whole, parts, alone = tensors("taught"), tensors("parts"), tensors("alone")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not torch.equal(whole["end.weight"], alone["end.weight"])
    assert go("labels", replace(config, taught=0.0), data, **taught)
    labels = tensors("labels")
    assert all(torch.equal(labels[name], alone[name]) for name in alone)


def test_dead_in_training_is_dead_in_the_average(data):
    job = begun(replace(SPARSE, keep=1.0), data, None, torch.device("cpu"))
    assert job.sparsifier is not None
    layer = job.sparsifier.groups["modelling2.bwd.l0"]
    with torch.no_grad():
        for tensor, axis, index in layer.slices(5):
            if "weight" in tensor:
                job.model.get_parameter(tensor).select(axis, index).zero_()
    given = example(data.vocabulary, 3, 9, 4)
    before, held = all_scores(job.model, given), job.average.modelling2.bwd.weight_hh_l0[5].abs().sum()
    assert held > 0 and job.sparsifier.compact()
    assert job.model.widths == job.average.widths and job.model.widths["modelling2.bwd.l0"] == 11
    torch.testing.assert_close(all_scores(job.model, given), before)
    assert job.average.words.glove is job.model.words.glove  # there is one of it
    update_(job.average, job.model, 0.5)


def test_recipes():
    names = [name for name, recipe in RECIPES.items() if recipe.task == "squad"]
    assert names[0] == "squad-bidaf" and {f"squad-bidaf{end}" for end in ("-iss", "-iss-finetune", "-lean")} < {*names}
    assert all(isinstance(RECIPES[name].config, SquadConfig) and name.startswith("squad-") for name in names)
    assert not RECIPES["squad-bidaf"].config.sparse and RECIPES["squad-bidaf-iss-finetune"].start == "squad-bidaf"


@pytest.mark.slow
def test_commands(capsys, folder):
    dense = ["train", "squad-bidaf", "--data", "data", "--out", "run", *SMALL]
    assert main(dense) == 0
    assert main(dense) == 0  # the same command again finds the run as it is
    out = capsys.readouterr().out
    assert "step     6 of 6  exact" in out and "the model is run/model.safetensors" in out
    started = ["train", "squad-bidaf-iss-finetune", "--data", "data", "--start", "run", "--json", *SMALL]
    assert main(started) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["kind"] == "result" and set(last["widths"].values()) == {6}

    assert main(["shrink", "run", "--out", "small.safetensors", "--ratio", "0.5", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["after"]
    assert after["output.fwd.l0"] == 3 and after["contextual.bwd.l0"] == 3
    assert main(["measure", "small.safetensors", "--against", "run", "--runtimes", "torch", "--threads", "1",
                 "--seconds", "0.01", "--batch", "1", "--steps", "9"]) == 0  # fmt: skip
    assert "times faster" in capsys.readouterr().out

    assert main(["export", "small.safetensors", "--out", "small.onnx"]) == 0
    assert "at lengths never traced" in capsys.readouterr().out
    text = "Ada lives in Rome. Last year Ada bought a red hat there, and later nothing but more bread."
    Path("text.txt").write_text(text)
    ask = ["--context", "text.txt", "--question", "Who bought it, and where was it?", "--json"]
    found = []
    for source in ("small.safetensors", "small.onnx"):
        assert main(["answer", source, *ask]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["text"] == found[1]["text"] == text[found[0]["start"] :][: len(found[0]["text"])]
    assert found[0]["probability"] == pytest.approx(found[1]["probability"], rel=1e-4)
    assert found[0]["text"] in found[0]["sentence"]
    assert main(["answer", "run", *ask[:-1]]) == 0 and "%)" in capsys.readouterr().out

    assert main(["quantize", "small.onnx", "--data", "data"]) == 0
    assert "F1 " in capsys.readouterr().out


@pytest.mark.slow
def test_report_shows_six_widths_and_strips(capsys, data):
    go("dense", replace(SPARSE, strength=0.0, steps=2, evaluate=1, width=6), data)
    go("lean", SPARSE, data)
    more = ["--out", "page.html", "--seconds", "0", "--markdown", "--csv", "--json"]
    assert main(["report", "lean", "dense", *more]) == 0
    facts = json.loads(capsys.readouterr().out)["runs"][0]
    assert len(facts["sizes"]) == 6 and facts["first_sizes"] == [12] * 6 and sum(facts["sizes"]) < 72
    page = Path("page.html").read_text()
    for name in ("modelling1.bwd", "modelling2.bwd", "output.bwd"):
        assert f"{name} from 12 to" in page and f"Norms of the groups of {name}: " in page
        assert f"{name.replace('.', ', ').capitalize()}, before the cut: " in page
    assert "F1 and exact match, evaluation by evaluation" in page and "has the best F1" in page
    assert "exact match" in Path("page.md").read_text()
    assert Path("page.csv").read_text().startswith("run,step,loss,exact,f1,seconds,alive contextual.fwd.l0,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "squad-bidaf", "--data", "nowhere"], "there is no train-v1.1.json"),
        (["train", "squad-bidaf", "--data", "data", "--keep", "7"], "keep is 7.0"),
        (["train", "squad-bidaf-iss-finetune", "--data", "data"], "Train squad-bidaf first"),
        (["answer", "none.onnx", "--context", "text.txt", "--question", "?"], "there is no model in none.onnx"),
        (["answer", "m.safetensors", "--context", "no.txt", "--question", "?"], "no.txt cannot be read"),
        (["answer", "m.safetensors", "--context", "text.txt", "--question", "x"], "answers no questions"),
    ],
)
def test_mistakes(capsys, arguments, message):
    Path("text.txt").write_text("Some text.")
    leanrnn.save(torch.nn.LSTM(2, 2), "m.safetensors")
    assert main(arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_empty_texts_and_questions(data):
    from leanrnn.errors import DataError, RunError
    from leanrnn.lab.squad.answer import answer
    from leanrnn.lab.squad.evaluate import runner

    job = begun(TINY, data, None, torch.device("cpu"))
    run = runner(job.average)
    assert answer(run, data.vocabulary, "Bob", "Who, of all the people there are?").text == "Bob"
    for text, question, name in (("", "Who?", "text"), ("Bob", " ", "question")):
        with pytest.raises(DataError, match=f"the {name} is empty"):
            answer(run, data.vocabulary, text, question)
    leanrnn.save(job.model, "m.safetensors", about=job.about)
    other = read(replace(TINY, character_count=10**6), Path("data"))
    with pytest.raises(RunError, match="knows other words"):
        begun(TINY, other, Path("m.safetensors"), torch.device("cpu"))


@pytest.mark.skipif("LEANRNN_DATA" not in os.environ, reason="needs SQuAD v1.1 and GloVe where LEANRNN_DATA points")
def test_real_files_lose_next_to_nothing():
    found = read(SquadConfig())
    for part in (found.train, found.dev):
        assert part.misplaced == 0 and part.inexact < 0.004 * len(part.answers)
