"""Files: what was saved is what is loaded, and every bad file is told from every other."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from leanrnn import layers
from leanrnn.errors import CheckpointError
from leanrnn.groups.groups import Groups
from leanrnn.running.compare import difference, run
from leanrnn.surgery import checkpoint
from leanrnn.surgery.checkpoint import load, save
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.plan import plan_of
from leanrnn.surgery.shrink import shrink
from tests.support.cutting import Mixed, Tied, mixed_groups
from tests.support.stacks import BATCH, INPUTS, STEPS, Tagger, random_masks, tagger
from tests.surgery.test_shrink import Remembering, remembering


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.safetensors"


def small_tagger():
    model, groups, x = tagger(bidirectional=True)
    masks = random_masks(groups)
    cut_(model, groups, masks)
    return model, groups, x


def dense(**options):
    return lambda: Tagger(**{"bidirectional": True, **options})


def assert_same(path, model, factory, x):
    save(model, path)
    loaded = load(path, factory)
    assert difference(run(model, x), run(loaded, x)) == 0
    assert list(loaded.state_dict()) == list(model.state_dict())
    assert plan_of(loaded) is None or plan_of(loaded).cuts == (plan_of(model) or plan_of(loaded)).cuts
    return loaded


def test_round_trip(path):
    model, _, x = small_tagger()
    loaded = assert_same(path, model, dense(), x)
    assert loaded.rnn.hidden_size == model.rnn.hidden_size and isinstance(loaded.rnn, layers.LSTM)
    assert loaded.head.weight.dtype == torch.float64, "the file decides, not the factory"
    assert [p.name for p in path.parent.iterdir()] == [path.name], "nothing is left beside the file"


def test_a_model_that_was_never_shrunk(path):
    model, _, x = tagger()
    assert type(assert_same(path, model, Tagger, x).rnn) is nn.LSTM


def test_a_model_that_was_shrunk_twice(path):
    model, groups, x = tagger()
    masks = groups.keep_mask({"rnn._l0": [0, 1, 3, 4]})
    cut_(model, groups, masks, plain=False)
    again = Groups(groups.cut(masks))
    cut_(model, again, again.keep_mask({"rnn._l0": [1, 3], "rnn._l1": [0, 5]}))
    loaded = assert_same(path, model, Tagger, x)
    assert type(loaded.rnn) is nn.LSTM and plan_of(loaded).layers["rnn._l0"] == [1, 4]


def test_shrunk_further_after_loading(path):
    model, groups, x = tagger()
    masks = groups.keep_mask({"rnn._l0": [0, 1, 3, 4]})
    cut_(model, groups, masks)
    loaded = assert_same(path, model, Tagger, x)
    again = Groups(groups.cut(masks))
    assert_same(path, shrink(loaded, again, keep={"rnn._l0": [1, 2]}, example=x), Tagger, x)


def test_tied_weights_are_stored_once(path):
    _, groups, x = tagger()
    model = Tied().double()
    cut_(model, groups, random_masks(groups))
    loaded = assert_same(path, model, Tied, x)
    assert loaded.again.weight is loaded.head.weight and loaded.rnn is loaded.twin
    names = set(load_file(path))
    assert "again.weight" not in names and not any(name.startswith("twin") for name in names)


def test_untied_weights_do_not_fit_a_tied_factory(path):
    model = Tied()
    model.again.weight = nn.Parameter(torch.zeros_like(model.head.weight))
    save(model, path)
    with pytest.raises(CheckpointError, match="are one tensor"):
        load(path, Tied)


def test_modules_of_every_kind(path):
    model = Mixed().double()
    groups, x = mixed_groups(model), torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    cut_(model, groups, groups.keep_mask({"width": [0, 2, 5]}))
    loaded = assert_same(path, model, Mixed, x)
    assert loaded.norm.full_width == 6 and loaded.groups.counts == [2, 1]


def test_remembered_numbers_are_in_the_file(path):
    model, groups = remembering("config")
    small = shrink(model, groups, keep_widths={"cell": 4, "rnn.0": 3})
    loaded = assert_same(path, small, lambda: Remembering("config"), groups.example)
    assert loaded.config.width == 4


def test_a_part_that_was_shrunk_on_its_own(path):
    small, _, x = small_tagger()
    save(nn.Sequential(small), path)
    loaded = load(path, lambda: nn.Sequential(dense()()))
    assert difference(run(small, x), run(loaded, x)) == 0


def test_views_and_shared_memory(path):
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            block = torch.randn(4, 6)
            self.register_buffer("left", block[:, :3])
            self.register_buffer("right", block[:, 3:])

    model = Halves()
    save(model, path)
    loaded = load(path, Halves)
    assert torch.equal(loaded.left, model.left) and torch.equal(loaded.right, model.right)


@pytest.mark.parametrize(
    ("factory", "named"),
    [
        (dense(width=5), "rnn.weight_"),
        (dense(width=7), "rnn.weight_"),
        (dense(bias=False), "rnn.bias_"),
        (dense(layers=1), "rnn.weight_ih_l1"),
        (lambda: nn.Linear(2, 2), "rnn.weight_"),
    ],
)
def test_a_wrong_factory_is_told_which_tensor(path, factory, named):
    save(small_tagger()[0], path)
    with pytest.raises(CheckpointError, match=rf"{named}.*constructor"):
        load(path, factory)


def test_bad_files(path):
    with pytest.raises(CheckpointError, match="no file"):
        load(path, Tagger)
    save(small_tagger()[0], path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:4], b"", b"PK\x03\x04 something else entirely"):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged"):
            load(path, Tagger)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="not written by leanrnn"):
        load(path, Tagger)
    for header, word in (("{}", "cannot be read"), ("[1", "cannot be read"), (json.dumps({"format": 99}), "Update")):
        save_file({"a": torch.zeros(1)}, path, metadata={"leanrnn": header})
        with pytest.raises(CheckpointError, match=word):
            load(path, Tagger)


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    model, _, x = small_tagger()
    save(model, path)
    monkeypatch.setattr(checkpoint, "save_file", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(model, path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert difference(run(model, x), run(load(path, dense()), x)) == 0
