"""Models that are compiled or replicated: found, cut, trained, saved and loaded as the models inside."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

import leanrnn
from leanrnn.errors import CheckpointError, LeanRNNWarning
from leanrnn.surgery.plan import plan_of


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn: Any = nn.GRU(4, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


def compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


def partly() -> nn.Module:
    """Compiled inside."""
    model = Tagger()
    model.rnn = compiled(model.rnn)
    return model


WAYS: dict[str, Callable[[], Any]] = {
    "as it is": Tagger,
    "compiled": lambda: compiled(Tagger()),
    "partly compiled": partly,
    "replicated": lambda: nn.DataParallel(Tagger()),
    "replicated and compiled": lambda: compiled(nn.DataParallel(Tagger())),
}


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 4)


@pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("first", WAYS.values(), ids=WAYS)
def test_what_was_saved_in_one_way_is_loaded_in_any(first, again, x, tmp_path):
    model = first()
    groups = leanrnn.discover(model, x)
    small = leanrnn.shrink(model, groups, ratio=0.5)
    assert type(small) is type(model)
    leanrnn.save(small, tmp_path / "small.safetensors")
    loaded = leanrnn.load(tmp_path / "small.safetensors", again)
    assert type(loaded) is type(again()) and sum(p.numel() for p in loaded.parameters()) == 3 * 3 * (4 + 3 + 2) + 12
    torch.testing.assert_close(loaded(x), small(x))


def test_groups_of_a_compiled_model_are_those_of_the_model(x):
    model = Tagger()
    groups = leanrnn.discover(compiled(model), x)
    assert groups.names == leanrnn.discover(model, x).names and groups.model is model
    small, also = leanrnn.shrink(model, groups, ratio=0.5), leanrnn.shrink(compiled(model), groups, ratio=0.5)
    assert type(small) is Tagger and type(also) is type(compiled(model))
    assert plan_of(also) == plan_of(small)
    torch.testing.assert_close(also(x), small(x))


def test_a_compiled_model_trains_and_is_compacted(x):
    model = compiled(Tagger())
    average = AveragedModel(model)
    groups = leanrnn.discover(model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sparsifier = leanrnn.Sparsifier(groups, strength=10.0, threshold=leanrnn.GroupThreshold(5.0))
    sparsifier.attach(optimizer, copies=[average])
    model(x).square().mean().backward()
    optimizer.step()
    with pytest.warns(LeanRNNWarning, match="only one component is left"):
        assert sparsifier.compact()
    assert groups.widths["rnn.l0"] == model.rnn.hidden_size == 1
    assert model(x).shape == average(x).shape == (5, 2, 3)
    sparsifier.detach()


def test_a_checkpoint_of_a_compiled_model_resumes(x):
    model, fresh = compiled(Tagger()), compiled(Tagger())
    small = leanrnn.shrink(model, leanrnn.discover(model, x), ratio=0.5)
    leanrnn.resumable(fresh, leanrnn.discover(fresh, x))
    fresh.load_state_dict(small.state_dict())
    torch.testing.assert_close(fresh(x), small(x))


def test_names_of_older_files_are_understood(x, tmp_path, monkeypatch):
    model = partly()
    small = leanrnn.shrink(model, leanrnn.discover(model, x), ratio=0.5)
    monkeypatch.setattr("leanrnn.surgery.checkpoint.plain_name", lambda model, name: name)
    leanrnn.save(small, tmp_path / "old.safetensors")
    monkeypatch.undo()
    torch.testing.assert_close(leanrnn.load(tmp_path / "old.safetensors", Tagger)(x), small(x))
    with pytest.raises(CheckpointError, match=r"rnn.weight_ih_l0' of 18 along axis 0"):
        leanrnn.load(tmp_path / "old.safetensors", lambda: compiled(nn.GRU(4, 6)))


def test_a_compiled_model_is_exported_and_timed(x, tmp_path):
    model = compiled(Tagger())
    assert leanrnn.export(model, x, tmp_path / "m.onnx").difference < 1e-5
    groups = leanrnn.discover(model, x)
    assert leanrnn.fit_latency(model, groups, seconds=0.1, samples=4).at(groups.widths) > 0
