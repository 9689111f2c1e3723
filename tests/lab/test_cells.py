"""Recipes of other cells than the LSTM: their models, their runs, and what comes after."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.cli.main import main
from leanrnn.cost import mult_adds
from leanrnn.errors import ConfigError
from leanrnn.lab import Config, named
from leanrnn.lab.events import Epoch
from leanrnn.lab.language.dropout import LockedDropout, RecurrentDropout, WordDropout
from leanrnn.lab.language.model import costs, language_model, load_language_model
from leanrnn.lab.language.onnx import export_language_model
from leanrnn.lab.language.perplexity import perplexity
from tests.support.tiny import SPARSE, WORDS, go, tiny_text, write_book

RHN = replace(
    SPARSE, cell="rhn", depth=3, tied=True, widths=(12,), follow=False, scope="recurrent", best=True, keep=1.0,
    l2=1e-4, drop_word=0.1, drop_input=0.2, drop_hidden=0.1, drop_output=0.2, strength=0.05, epochs=3,
)  # fmt: skip
GRU = replace(SPARSE, cell="gru", epochs=3, strength=0.06)
RNN = replace(SPARSE, cell="rnn", epochs=3, group_threshold=1.2)
CONFIGS = {"gru": GRU, "rnn": RNN, "rhn": RHN}


@pytest.mark.parametrize(
    ("width", "weights"), [(830, 23.5), (726, 18.9), (517, 11.1), (403, 7.6), (328, 5.7)]
)  # fmt: skip
def test_the_papers_highway_network_has_its_number_of_weights(width, weights):
    with torch.device("meta"):
        config = replace(named("ptb-rhn").config, embedding=width, widths=(width,))
        model = language_model(replace(config, seed=0), 10_000)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == weights


def test_the_papers_highway_network():
    config, sparse = named("ptb-rhn").config, named("ptb-rhn-iss").config
    assert (config.rate_at(19), config.rate_at(21)) == (0.2, pytest.approx(0.2 / 1.02**2))
    assert sparse.drop_factor == 0.6 and sparse.threshold == 4e-4 and not sparse.everywhere
    small = replace(sparse, embedding=8, widths=(8,))
    model = language_model(small, 20)
    assert model.drops == pytest.approx([0, 0, 0.45, 0.15, 0.15, 0.45, 0])
    (layer,) = leanrnn.discover(model, torch.zeros(3, 2, dtype=torch.long))
    assert (layer.name, layer.width) == ("layers.0.l0", 8)
    assert layer.group_size == 20 + 4 * 8 + 10 * 4 * 8  # with 10000 words and 830 units 46520
    bias = model.layers[0].bias_l3
    assert (bias[8:] == -2).all() and 0 < bias[:8].abs().max() <= 0.04


@pytest.mark.parametrize("cell", CONFIGS)
def test_costs_are_the_mult_adds_that_go(cell):
    config = CONFIGS[cell]
    model, word = language_model(config, WORDS), torch.zeros(1, 1, dtype=torch.long)
    groups = leanrnn.discover(model, torch.zeros(3, 2, dtype=torch.long), scope="all")
    assert set(groups.names) == set(costs(config, WORDS))
    for name, cost in costs(config, WORDS).items():
        small = leanrnn.shrink(model, groups, keep_widths={name: groups[name].width - 1})
        gone = mult_adds(model, word) - mult_adds(small, word)
        crossed = {"gru": 3, "rnn": 1, "rhn": 2 * 3 + 2}[cell] if name != "embedding" else 0  # counted twice
        assert gone == cost - crossed


@pytest.mark.parametrize("cell", CONFIGS)
def test_a_run_stopped_and_gone_on_with_is_the_same_to_the_bit(cell, tmp_path):
    go(tmp_path / "whole", CONFIGS[cell])
    while not (tmp_path / "pieces" / "result.json").exists():
        go(tmp_path / "pieces", CONFIGS[cell], steps=61)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "pieces"))
    assert one == other
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    model = load_language_model(tmp_path / "whole" / "model.safetensors")
    assert list(model.widths) == result["widths"] and result["difference"] < 1e-5
    assert sum(result["widths"]) < sum(CONFIGS[cell].widths)
    written = export_language_model(tmp_path / "whole" / "model.safetensors", tmp_path / "m.onnx")
    assert written.inputs["words"] == ("time", "batch") and written.outputs[1] == "h_0"


def test_the_best_epoch_counts(tmp_path):
    """A rate that ruins the model after the first epoch: what is kept is from before."""
    config = replace(RHN, strength=0.0, constant=1, decay=40.0, clip=1e3, epochs=3, penalised=0)
    go(tmp_path / "good", config)
    result = json.loads((tmp_path / "good" / "result.json").read_text())
    assert min(result["valid_by_epoch"]) < 0.9 * result["valid_by_epoch"][-1]
    assert result["valid"] == pytest.approx(min(result["valid_by_epoch"]), rel=1e-5)
    model = load_language_model(tmp_path / "good" / "model.safetensors")
    assert result["valid_in_one"] == pytest.approx(perplexity(model, tiny_text().valid, 1, 7, whole=True), rel=1e-5)


def test_masks():
    words = torch.tensor([[1, 2], [3, 2], [1, 5]])
    torch.manual_seed(0)
    found = {tuple(WordDropout(0.5)(torch.ones(3, 2, 4), words)[:, :, 0].flatten().tolist()) for _ in range(50)}
    assert all(mask[0] == mask[4] and mask[1] == mask[3] for mask in found) and len(found) > 5
    held = LockedDropout(0.5)(torch.ones(3, 2, 8))
    assert torch.equal(held[0], held[2]) and not torch.equal(held[:, 0], held[:, 1])
    assert torch.equal(LockedDropout(0.5).eval()(torch.ones(3, 2, 8)), torch.ones(3, 2, 8))


@pytest.mark.parametrize("made", [nn.LSTM, nn.GRU, nn.RNN, lambda n, m: nn.RNN(n, m, nonlinearity="relu")])
@pytest.mark.parametrize("carried", [False, True])
def test_recurrent_dropout_is_a_layer_with_fewer_weights(made, carried):
    layer, x = made(3, 5).double(), torch.randn(7, 2, 3, dtype=torch.float64)
    with torch.no_grad():
        state = layer(x)[1] if carried else None
    dropped = RecurrentDropout(0.4)
    torch.manual_seed(0)
    mask = nn.functional.dropout(torch.ones_like(layer.weight_hh_l0), 0.4)
    fewer = copy.deepcopy(layer)
    fewer.weight_hh_l0.data *= mask
    torch.manual_seed(0)
    y, after = dropped(layer, x, state)
    expected, then = fewer(x, state)
    assert 0 < (mask == 0).sum() < mask.numel()
    torch.testing.assert_close((y, after), (expected, then), rtol=1e-12, atol=1e-12)
    y.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(layer.weight_hh_l0.grad, fewer.weight_hh_l0.grad * mask, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer.weight_ih_l0.grad, fewer.weight_ih_l0.grad, rtol=1e-12, atol=1e-12)
    assert torch.equal(dropped.eval()(layer, x, state)[0], layer(x, state)[0])


def test_recurrent_dropout_begins_when_survivors_recover(tmp_path):
    config = replace(CONFIGS["gru"], drop_recurrent=0.3, penalised=2, afterwards=0.25)
    assert [config.drop_recurrent_at(epoch) for epoch in range(3)] == [0, 0, 0.3]
    always = (replace(config, strength=0.0), replace(config, penalised=0))
    assert [each.drop_recurrent_at(0) for each in always] == [0.3, 0.3]
    events = [e for e in go(tmp_path / "with", config) if isinstance(e, Epoch)]
    plain = [e for e in go(tmp_path / "without", replace(config, drop_recurrent=0.0)) if isinstance(e, Epoch)]
    assert [e.train for e in events[:2]] == [e.train for e in plain[:2]] and events[2].train != plain[2].train
    assert torch.isfinite(torch.tensor(events[2].valid))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth is 0. Give at least 1"),
        ({"depth": 3}, "for the cell rhn, and this is lstm"),
        ({"widths": (0,)}, "at least one unit"),
        ({"tied": True, "widths": (200, 100)}, "Give both one width"),
        ({"drop_word": 1.0}, "drop_word is 1.0, times 1.0. Give a probability below 1"),
        ({"drop_recurrent": 1.0}, "drop_recurrent is 1.0. Give a probability below 1; 0 is none."),
        (
            {"cell": "rhn", "drop_recurrent": 0.1},
            "drop_recurrent is for lstm, gru and rnn. The cell",
        ),
        ({"l2": -1.0}, "l2 is -1.0"),
    ],
)
def test_settings_no_run_can_have(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_from_a_run_to_a_page(tmp_path, monkeypatch, capsys):
    write_book(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("rhn.toml").write_text(
        'cell = "rhn"\ndepth = 2\ntied = true\nwidths = [10]\nembedding = 10\nby_cost = false\nscope = "recurrent"\n'
        "vocabulary = 40\nheld_out = 0.2\nbatch = 4\nwindow = 6\nepochs = 1\nstrength = 1e-6\n"
    )
    assert main(["train", "text", "--data", "book.txt", "--config", "rhn.toml", "--threads", "1"]) == 0
    assert main(["shrink", "runs/text", "--out", "small.safetensors", "--ratio", "0.5", "--json"]) == 0
    assert main(["export", "small.safetensors", "--out", "small.onnx"]) == 0
    assert main(["quantize", "small.onnx", "--data", "book.txt"]) == 0
    quick = ["--seconds", "0.01", "--threads", "1"]
    assert main(["measure", "runs/text", *quick, "--runtimes", "torch", "onnxruntime"]) == 0
    assert main(["report", "runs/text", "--seconds", "0"]) == 0
    assert "Layer 1" in Path("report.html").read_text()
    assert main(["ls"]) == 0
    assert all(name in capsys.readouterr().out for name in ("ptb-rhn-small-lean",))
