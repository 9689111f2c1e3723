"""``leanrnn train`` and what comes after it, as a user types it."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import leanrnn
from leanrnn.cli.main import main
from leanrnn.cli.sections import SECTIONS
from leanrnn.groups import count_weights
from leanrnn.lab import RECIPES, Config
from leanrnn.lab.events import Interval
from leanrnn.lab.language.model import load_language_model
from leanrnn.lab.squad.config import SquadConfig
from tests.support.tiny import SMALL, write_book


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_book(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEANRNN_DATA", raising=False)
    return tmp_path


def test_own_text_to_the_end(capsys):
    train = ["train", "text-lean", "--data", "book.txt", "--out", "runs/text", *SMALL, "--strength", "1e-6"]
    assert main(train) == 0
    out = capsys.readouterr().out
    assert "epoch  2 of 2" in out and "the model is runs/text/model.safetensors" in out
    assert main(train) == 0  # it is done already
    assert "epoch  2 of 2" not in capsys.readouterr().out

    quick = ["--seconds", "0.01", "--threads", "1", "--runtimes", "torch"]
    assert main(["measure", "runs/text", "--json", *quick]) == 0
    found = json.loads(capsys.readouterr().out)
    facts, (row,) = found["models"][0], found["measured"]
    words = len(leanrnn.about("runs/text/model.safetensors")["words"])
    result = json.loads(Path("runs/text/result.json").read_text())
    model = load_language_model(Path("runs/text/model.safetensors"))
    assert facts["weights"] == result["weights"] == count_weights(model)
    assert f"{result['weights']:,} weights" in out
    assert facts["mult_adds_a_word"] == 4 * 10 * 18 + 4 * 9 * 19 + 9 * words
    assert row["file_bytes"] > 4 * facts["weights"] and row["peak_bytes"] > 5e7
    assert main(["measure", "runs/text/model.safetensors", *quick]) == 0
    assert max(map(len, (told := capsys.readouterr().out).splitlines())) <= 80 and "(quartiles)" in told
    assert main(["report", "runs/text", "--json", "--seconds", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["weights"] == facts["weights"]

    assert main(["shrink", "runs/text", "--out", "small.safetensors", "--ratio", "0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["widths"] == "5 + 5"
    budget = ["--budget", "weights=80%", "round_to=2"]
    assert main(["shrink", "runs/text", "--out", "tight.safetensors", *budget, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["after"]["weights"] <= 0.8 * told["before"]["weights"]
    keep = ["--keep-widths", "layers.0.l0=4", "layers.1.l0=7"]
    assert main(["shrink", "runs/text", "--out", "kept.safetensors", *keep, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["widths"] == "4 + 7"
    assert main(["shrink", "runs/text", "--out", "same.safetensors"]) == 0
    assert "same.safetensors gives the same results as runs/text/model.safetensors." in capsys.readouterr().out
    assert main(["measure", "small.safetensors", "--against", "runs/text", *quick]) == 0
    told = capsys.readouterr().out
    assert "faster: how many times faster than runs/text" in told and max(map(len, told.splitlines())) <= 80

    assert main(["train", "text-dense", "--data", "book.txt", *SMALL, "--start", "small.safetensors", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["kind"] == "result" and lines[-1]["widths"] == [5, 5]


def test_a_run_says_what_it_begins_with(capsys):
    train = ["train", "text-dense", "--data", "book.txt", *SMALL]
    assert main(train) == 0
    data, model, way = capsys.readouterr().out.splitlines()[:3]
    words = leanrnn.about("runs/text-dense/model.safetensors")["words"]
    result = json.loads(Path("runs/text-dense/result.json").read_text())
    assert data.startswith("data      ") and data.endswith(f" to test; {len(words)} different")
    macs = 4 * 10 * 18 + 4 * 9 * 19 + 9 * len(words)
    assert model == f"model     {result['weights']:,} parameters, {macs:,} mult-adds a word, widths 8 + 10 + 9"
    assert re.fullmatch(r"training  2 epochs of \d+ batches, on cpu", way)


def test_the_bar_shows_the_loss_and_how_far_the_budget_is():
    layers = {"widths": {"rnn": 10}, "alive": {"rnn": 7}}
    event = Interval(step=5, epoch=1.25, loss=2.5, penalty=0.1, strength=0.0, tokens_per_second=1.0, **layers)
    assert event.part(Config(epochs=5)) == (0.25, "epoch 1.2 of 5  loss 2.500")
    assert replace(event, strength=1.0).part(Config())[1].endswith("  loss 2.500  7 of 10 units alive")
    shrinks = replace(event, phase="shrinking", used={"weights": 1.5, "mult_adds": 2.313})
    assert shrinks.part(Config(epochs=5))[1] == "epoch 1.2 of 5  loss 2.500  shrinking, 231% of budget"


def test_every_setting_is_an_option_in_one_section(capsys):
    for kind in (Config, SquadConfig):
        names = [name for names in SECTIONS.values() for name in names.split() if hasattr(kind, name)]
        assert sorted(names) == sorted(field.name for field in fields(kind))
    with pytest.raises(SystemExit):
        main(["train", "text", "--help"])
    told = capsys.readouterr().out
    places = [told.index(f"{title} options") for title in SECTIONS]
    assert places == sorted(places) and "(required)" in told and "None" not in told
    assert told.index("--budget") > told.index("shrinking options") > told.index("--widths")


def test_a_penalty_that_kills_everything_is_told(capsys):
    assert main(["train", "text-lean", "--data", "book.txt", *SMALL, "--strength", "9"]) == 0
    told = capsys.readouterr().err
    assert told.count("are dead: the strength of 9 is too large") == 1 and "layers.0.l0" in told


def test_a_budget_is_met_told_and_reported(capsys):
    budget = ["--budget", "mult_adds=50%, floors=3"]
    assert main(["train", "text-dense", "--data", "book.txt", *SMALL, "--epochs", "5", *budget]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:5] == "epoch"]
    phases, used = zip(*(line.split("  ")[-2].split(", ")[-2:] for line in lines), strict=True)
    assert phases == ("full size", "shrinking", *["recovering"] * 3)
    assert used[0] == "200% of budget" and int(used[-1].partition("%")[0]) <= 100
    result = json.loads(Path("runs/text-dense/result.json").read_text())
    assert 0.8 < result["used"]["mult_adds"] <= 1 and min(result["widths"]) >= 3
    told = f"mult_adds=50%, floors=3 (used: mult_adds {result['used']['mult_adds']:.1%})"
    assert main(["report", "runs/text-dense", "--seconds", "0", "--markdown", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"][0]
    assert found["budget"] == told and "--budget 'mult_adds=50%, floors=3'" in found["command"]
    page = Path("report.md").read_text()
    assert f"Its budget was {told}." in page and f"| budget | {told} |" in page


def test_what_the_library_warns_of_is_a_line(capsys):
    assert main(["train", "text-dense", "--data", "book.txt", *SMALL, "--epochs", "1"]) == 0
    capsys.readouterr()
    assert main(["shrink", "runs/text-dense", "--out", "same.safetensors"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("note: nothing was cut: no component is dead.") and told.count("\n") == 1


def test_settings_from_a_file(capsys):
    Path("mine.toml").write_text('tokens = "character"\nepochs = 1\nwidths = [6]\n')
    arguments = ["--data", "book.txt", "--config", "mine.toml", "--batch", "4", "--threads", "1", "--embedding", "5"]
    assert main(["train", "text", *arguments]) == 0
    config = json.loads(Path("runs/text/config.json").read_text())["config"]
    assert config["tokens"] == "character" and config["widths"] == [6] and config["embedding"] == 5
    assert "epoch  1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text"], "no data was named. Give --data FOLDER"),
        (["text", "--data", "nowhere"], "there is no nowhere"),
        (["ptb-lstm-small", "--data", "."], "there is no ptb.train.txt in"),
        (["ptb-lstm-smal", "--data", "."], "Did you mean ptb-lstm-small?"),
        (["ptb-lstm-small-iss-finetune"], "begins with a trained model. Train ptb-lstm-small first"),
        (["text", "--config", "no.toml"], "there is no file no.toml"),
        (["text", "--data", "book.txt", "--keep", "7"], "keep is 7.0"),
        (["text", "--data", "book.txt", "--device", "tpu"], "there is no device 'tpu' here"),
        (["text", "--data", "book.txt", "--window", "9999"], "no window of 9999 and one more"),
        (["text", "--data", "book.txt", "--start", "nothing", *SMALL], "there is no model in nothing"),
        (["text", "--budget", "speed=2"], "'speed=2' is no part of a budget"),
        (["text", "--budget", "weights=50%", "--warm-up", "1"], "warm_up 1.0 and shrink 0.3 is not possible"),
        (["text", "--budget", "mult_adds=1%", "--data", "book.txt", *SMALL], "mult-adds are not possible. The least"),
        (["text", "--data", "book.txt", "--out", "book.txt"], "book.txt cannot be a folder"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    assert main(["train", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.startswith("error: ") and err.count("\n") == 1


def test_a_changed_setting_needs_another_folder(capsys):
    assert main(["train", "text", "--data", "book.txt", *SMALL]) == 0
    capsys.readouterr()
    assert main(["train", "text", "--data", "book.txt", *SMALL, "--seed", "2"]) == 2
    assert "config.seed was 1 and is 2" in capsys.readouterr().err
    Path("book.txt").write_text(Path("book.txt").read_text().replace("day", "night"))
    assert main(["train", "text", "--data", "book.txt", *SMALL]) == 2
    assert "text was" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_everything(folder, number):
    epochs = [*SMALL, "--epochs", "500"]
    command = [sys.executable, "-m", "leanrnn", "train", "text", "--data", "book.txt", *epochs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    metrics = folder / "runs" / "text" / "metrics.jsonl"
    end = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command continues" in err and "Traceback" not in err
    assert list((folder / "runs" / "text" / "checkpoints").glob("0*"))


def test_ls_and_help(capsys):
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/config.json").write_text('{"recipe": "text"}')
    Path("runs/damaged").mkdir()
    Path("runs/damaged/config.json").write_text("[")
    assert main(["ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Runs:", "  runs/mine  text, not finished"] and max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert names[0] == "runs/mine" and sorted(names[1:]) == sorted(RECIPES)
    assert {name for name in names[1:4]} == {"text", "text-dense", "text-lean"}  # before the benchmarks
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ptb-lstm-small"]["config"]["widths"] == [200, 200]
    assert main(["env", "--json"]) == 0
    assert "torch" in json.loads(capsys.readouterr().out)
    for arguments in (["train", "--help"], ["train", "text", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0 and "--strength" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "nowhere"], "there is no model in nowhere"),
        (["measure", "book.txt"], "is damaged or no safetensors file"),
        (["measure", "book.txt", "--runtimes", "abacus"], "there is no runtime 'abacus'"),
        (["shrink", "nowhere", "--out", "x"], "there is no model in nowhere"),
        (["export", "nowhere", "--out", "x.onnx"], "there is no model in nowhere"),
        (["export", "book.txt", "--out", "x.onnx"], "is damaged or no safetensors file"),
        (["export", "nowhere", "--out", "x.pt2", "--steps", "0"], "steps is 0"),
        (["quantize", "nowhere.onnx"], "there is no file nowhere.onnx"),
        (["quantize", "book.txt"], "is damaged or no ONNX file"),
    ],
)
def test_mistakes_after_training(capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_tensorboard_is_an_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert main(["train", "text", "--data", "book.txt", *SMALL, "--tensorboard"]) == 2
    assert "pip install leanrnn[tensorboard]" in capsys.readouterr().err


def test_tensorboard_shows_the_metrics_and_forgets_what_a_kill_undid(capsys):
    code = "import sys; from leanrnn.cli import main; sys.exit(main(sys.argv[1:]))"
    command = ["train", "text", "--data", "book.txt", *SMALL, "--tensorboard", "--epochs", "3"]
    with subprocess.Popen([sys.executable, "-c", code, *command]) as process:
        while not list(Path("runs").glob("text/checkpoints/0*")) and process.poll() is None:
            time.sleep(0.01)
        process.kill()  # after a checkpoint, so that some of what was told is told again
    assert main(command) == 0
    lines = [json.loads(line) for line in Path("runs/text/metrics.jsonl").read_text().splitlines()]
    board = EventAccumulator("runs/text/tensorboard").Reload()
    for tag, kind in (("interval/loss", "interval"), ("epoch/valid", "epoch"), ("epoch/alive/layers.0.l0", "epoch")):
        _, name, *part = tag.split("/")
        wanted = [(line["step"], line[name][part[0]] if part else line[name]) for line in lines if line["kind"] == kind]
        found = [(each.step, each.value) for each in board.Scalars(tag)]
        assert found == [(step, pytest.approx(value)) for step, value in wanted]


def test_from_a_run_to_eight_bits(capsys):
    assert main(["train", "text-dense", "--data", "book.txt", "--out", "runs/text", *SMALL]) == 0
    assert main(["export", "runs/text", "--out", "step.pt2", "--steps", "1"]) == 0
    assert "1 x batch" in (told := capsys.readouterr().out) and "torch's programs hold the number of steps" in told
    assert main(["export", "runs/text", "--out", "m.onnx"]) == 0
    assert "state_1_0  1 x batch x 9" in capsys.readouterr().out
    assert main(["quantize", "m.onnx", "--data", "book.txt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = json.loads(Path("runs/text/result.json").read_text())["valid"]
    assert found["before"] == pytest.approx(wanted, rel=1e-4) and found["after"] == pytest.approx(wanted, rel=0.05)
    command = ["measure", "m.onnx", "--against", "m.int8.onnx", "--seconds", "0.1", "--threads", "1", "--json"]
    assert main([*command, "--runtimes", "onnxruntime", "openvino"]) == 0
    rows = json.loads(capsys.readouterr().out)["measured"]
    assert {row["runtime"] for row in rows} == {"onnxruntime", "openvino"} and len(rows) == 4
    Path("other.txt").write_text(Path("book.txt").read_text().replace("small", "tiny"))
    assert main(["quantize", "m.onnx", "--data", "other.txt"]) == 2
    assert "knows other words" in capsys.readouterr().err
