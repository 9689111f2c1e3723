"""``examples/serve_onnx.py``: the exported model writes on as the model does, without torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import leanrnn
from leanrnn.lab.language.generate import generate
from tests.support.served import LETTERS, PTB, WORDS, exported

SERVE = Path(__file__).parents[2] / "examples" / "serve_onnx.py"


def serve(*arguments: object, code: int = 0) -> str:
    """What the example prints; where it fails, its message."""
    command = [sys.executable, str(SERVE), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.parametrize(
    ("words", "settings", "prompt", "tokens"),
    [
        (WORDS, {}, "This method, unheard of", ["<unk>", "method", ",", "<unk>", "of"]),
        (LETTERS, {"tokens": "character"}, "The aT", ["T", "<unk>", "e", " ", "a", "T"]),
        (PTB, {"corpus": "ptb"}, "Of n't\nthe zoo", ["of", "n't", "<eos>", "the", "<unk>"]),
    ],
)
def test_greedy_is_what_the_model_says(tmp_path, words, settings, prompt, tokens):
    path, model = exported(tmp_path, words, **settings)
    text, speed = serve(path, prompt, "--count", 30, "--temperature", 0).rsplit("\n", 2)[:2]
    wanted = generate(model, words, tokens, count=30, temperature=0)
    between = "" if settings.get("tokens") else " "
    assert text == prompt + between + between.join(wanted) and len(set(wanted)) > 2
    assert "tokens a second" in speed and "<unk>" not in wanted


def test_chance_has_a_seed_and_never_names_the_unknown(tmp_path):
    path, _ = exported(tmp_path, WORDS)
    one, same, other = (serve(path, "the list", "--count", 60, "--seed", s).rpartition("\n")[0] for s in (1, 1, 2))
    one, same, other = (text.splitlines()[0] for text in (one, same, other))
    assert one == same != other and "<unk>" not in one + other


def test_eight_bits_are_served_too(tmp_path):
    path, _ = exported(tmp_path, WORDS)
    small = leanrnn.quantize(path).path
    assert serve(small, "the list", "--count", 5).startswith("the list ")


def test_nothing_of_torch_or_leanrnn_is_imported(tmp_path):
    path, _ = exported(tmp_path, WORDS)
    code = (
        f"import runpy, sys; sys.argv = ['serve', {str(path)!r}, 'the']\n"
        f"try: runpy.run_path({str(SERVE)!r}, run_name='__main__')\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "print({'torch', 'leanrnn', 'onnx', 'scipy'} & set(sys.modules))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "set()", done.stderr


def test_mistakes_are_one_sentence_and_what_to_do(tmp_path):
    path, model = exported(tmp_path, WORDS)
    assert "there is no file nowhere.onnx" in serve("nowhere.onnx", "the", code=2)
    (tmp_path / "text.onnx").write_text("no model")
    assert "is not a language model that leanrnn has exported" in serve(tmp_path / "text.onnx", "the", code=2)
    leanrnn.export(torch.nn.Linear(2, 3), torch.zeros(4, 2), tmp_path / "linear.onnx")
    assert "is not a language model that leanrnn has exported" in serve(tmp_path / "linear.onnx", "the", code=2)
    about = leanrnn.about(tmp_path / "model.safetensors")
    leanrnn.export(model, torch.zeros(4, 2, dtype=torch.long), tmp_path / "whole.onnx", about=about)
    assert "takes no state" in serve(tmp_path / "whole.onnx", "the", code=2)
    assert "Give some words" in serve(path, "", code=2)
    assert "temperature has to be 0 or more" in serve(path, "the", "--temperature", -1, code=2)
