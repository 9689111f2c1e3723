"""The command line: the same words as the API, and one line instead of a traceback for every mistake."""

import json
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import leanrnn
from leanrnn.cli.commands import GROUPS
from leanrnn.cli.main import main

GROUPS_BY_NAME = {name: each for commands in GROUPS.values() for name, each in commands.items()}
MODELS = """
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])

def tagger():
    return Tagger(), torch.zeros(5, 2, 4)

def inputs():
    return {"x": torch.ones(5, 2, 4)}

def misfit():
    return Tagger(), torch.zeros(5, 2, 7)

def no_pair():
    return Tagger()

def broken():
    raise ZeroDivisionError("on purpose")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with models.py in it, as the current one."""
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "typo.py").write_text("def tagger(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "models", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["models.py:tagger"],
        ["models:tagger"],
        ["models.py:Tagger", "--example", "5,2,4"],
        ["models.py:Tagger", "--example", "5,2,4:float32"],
        ["models:tagger", "--example", "models:inputs"],
    ],
)
def test_discover_prints_the_groups(capsys, arguments):
    assert main(["discover", *arguments]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["layer", "width", "group", "readers"]
    assert [row.split()[1] for row in rows[:2]] == ["6", "6"]
    assert "Which way is yours?" in rows and any(f"leanrnn shrink {arguments[0]} --data" in row for row in rows)


def test_discover_says_when_nothing_can_shrink(capsys, folder):
    text = "import torch\nmodel = torch.nn.LSTM(3, 4)\ndef states(): return model, torch.zeros(5, 2, 3)\n"
    (folder / "states.py").write_text(text)  # its hidden states are the result
    assert main(["discover", "states.py:states"]) == 0
    told = capsys.readouterr().out
    assert "Nothing in this model can shrink" in told and "Which way" not in told


def test_discover_writes_json_and_explains(capsys):
    assert main(["discover", "models.py:tagger", "--json"]) == 0
    text = capsys.readouterr().out
    groups = leanrnn.Groups.from_json(text)
    assert json.loads(groups.to_json()) == json.loads(text)
    assert main(["discover", "models.py:tagger", "--explain", groups.names[0]]) == 0
    assert "head.weight" not in (out := capsys.readouterr().out) and "weight_hh_l0" in out


def test_scope_all_is_passed_on(capsys):
    assert main(["discover", "models.py:tagger", "--scope", "all"]) == 0
    assert "width" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models"], "'models' does not name a function. Write package.module:function"),
        (["models.py:"], "does not name a function"),
        (["nowhere.py:tagger"], "there is no file nowhere.py"),
        (["nowhere.deep:tagger"], "there is no module 'nowhere'"),
        (["models.py:taggr"], "has no function 'taggr'. Did you mean tagger? Its functions are Tagger,"),
        (["models.py:no_pair"], "returned a Tagger. Return a pair (model, example)"),
        (["models.py:broken"], "ZeroDivisionError: on purpose (raised at "),
        (["models.py:misfit"], "models.py:12"),
        (["typo.py:tagger"], "typo.py:1"),
        (["models.py:tagger", "--explain", "rnn"], "there is no layer 'rnn'"),
        (["models.py:Tagger", "--example", "5,x:float32"], "'5,x:float32' describes no tensor"),
        (["models.py:Tagger", "--example", "5,2,4:float33"], "describes no tensor"),
        (["models.py:Tagger", "--example", "models.py:missing"], "has no function 'missing'"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    assert main(["discover", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.startswith("error: ") and err.count("\n") == 1


def test_traceback_on_demand():
    with pytest.raises(ZeroDivisionError):
        main(["discover", "models.py:broken", "--traceback"])


@pytest.mark.parametrize(
    ("typed", "message"),
    [("trian", "there is no command 'trian'. Did you mean train?"), ("juggle", "There are demo, ls, discover, train,")],
)
def test_unknown_commands_are_told_with_the_nearest(capsys, typed, message):
    assert main([typed, "text"]) == 2
    assert message in capsys.readouterr().err


def test_misspelt_options_are_told_with_the_nearest(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["discover", "models.py:tagger", "--exmaple", "5,2,4"])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and "Perhaps you meant" in err and "--example" in err and "leanrnn ls" not in err


def test_help_fits_a_screen_and_names_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 40 and max(map(len, out.splitlines())) <= 80
    assert "--version" in out and leanrnn.__version__ in out
    for commands in GROUPS.values():
        assert all(f"\n  {name:<10}{each.line}\n" in out for name, each in commands.items())
    assert main([]) == 2


@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"]])
def test_a_reader_that_goes_away_is_no_error(words):
    process = subprocess.Popen(
        [sys.executable, "-m", "leanrnn", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()  # before anything is written, as `head -0` does
    assert process.wait(timeout=60) == 0 and process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("name", [name for commands in GROUPS.values() for name in commands])
def test_the_help_of_a_command_has_examples_that_it_takes(capsys, monkeypatch, name):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0 and max(map(len, out.splitlines())) <= 80
    ran = list[object]()
    monkeypatch.setattr(GROUPS_BY_NAME[name].kind, "run", lambda self: ran.append(self))
    for example in GROUPS_BY_NAME[name].examples:
        assert f"\n   leanrnn {name} {example}".rstrip() in out
        assert main([name, *shlex.split(example)]) == 0
    assert len(ran) == len(GROUPS_BY_NAME[name].examples) > 0


def test_version_and_environment(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"leanrnn {leanrnn.__version__}\n"
    assert main(["env"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[:4] == ["leanrnn", "python", "platform", "torch"] and "processor" in names


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library can hold memory")
def test_memory_that_is_held_is_not_asked_for_again():
    code = """
import resource, torch
from leanrnn.environment import hold_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = faults()
hold_memory()
held = [faults() for _ in range(8)]  # the first ones fetch what is then held
print(without > 100 * max(1, held[-1]), without, held)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True"), done.stdout


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library can hold memory")
def test_memory_that_is_held_is_given_back_when_asked():
    code = """
import os, torch
from leanrnn.environment import give_back_memory, hold_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

hold_memory()
blocks = [torch.ones(2_000_000) for _ in range(40)]
last, full = blocks.pop(), resident()
del blocks
held = resident()
give_back_memory()
print(full - held < 1e7, held - resident() > 3e8)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize(("hold", "again"), [("", "cache_hit"), ("hold_memory()", "cache_miss")])
def test_kernels_of_shapes_long_gone_are_not_kept(hold, again, monkeypatch):
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    code = f"""
import torch
from leanrnn.environment import hold_memory

{hold}
lstm = torch.nn.LSTM(8, 4)
with torch.no_grad():
    for length in (*range(1, 80), 1):
        print("length", length, flush=True)
        lstm(torch.ones(length, 2, 8))
"""
    told = os.environ | {"ONEDNN_VERBOSE": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=told)
    last = done.stdout.rpartition("length 1\n")[2].splitlines()
    rnn = [line for line in last if ",rnn," in line and "create" in line]
    assert rnn and all(again in line for line in rnn)


@pytest.mark.slow
def test_demo_on_a_shorter_text(capsys, monkeypatch, folder):
    from leanrnn.lab.demo import deliver, demo
    from leanrnn.lab.language.config import Config
    from leanrnn.lab.language.text import Text, read

    def shorter(config: Config) -> Text:
        text = read(config)
        return replace(text, train=text.train[:6000], valid=text.valid[:1500], test=text.test[:1500])

    monkeypatch.setattr(demo, "read", shorter)
    small = {n: replace(c, embedding=20, widths=(24, 20)) for n, c in demo.CONFIGS.items()}
    monkeypatch.setattr(demo, "CONFIGS", small)
    monkeypatch.setattr(deliver, "SECONDS", 0.1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))  # nothing is there,
    monkeypatch.setenv("PATH", "")  # and nothing can be fetched
    assert main(["demo", "--epochs", "2", "--threads", "1", "--out", "made"]) == 0
    out = capsys.readouterr().out
    assert "mult-adds" in out and "lean  this method returns | " in out
    turns = [line.split()[0] for line in out.splitlines() if " epoch " in line]
    assert turns.count("dense") == turns.count("lean") == 2 and turns[:2] == ["dense", "lean"]
    exported, eight, *_, without, last = out.splitlines()[-13:]
    assert exported.startswith("Exported made/dense.onnx and made/lean.onnx: no more than ")
    assert eight.startswith("In eight bits, made/lean.int8.onnx: validation perplexity ")
    assert without.startswith("No page to type in: onnxruntime-web@") and "Install Node.js" in without
    assert last.startswith("Open made/report.html: ") and "<svg" in Path("made/report.html").read_text()
    assert not Path("made/complete.html").exists()
    monkeypatch.setattr(demo, "deliver", lambda *_: ["the same again"])
    assert main(["demo", "--epochs", "2", "--threads", "1", "--out", "made", "--json"]) == 0  # nothing is trained again
    again = capsys.readouterr().out
    assert " epoch " not in again and json.loads(again[again.index("{") :])["lean"]["widths"]
    assert main(["demo", "--epochs", "0"]) == 2
