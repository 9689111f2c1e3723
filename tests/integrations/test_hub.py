"""A folder to publish: what is written is read again, by the model's own class."""

import json

import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.errors import CheckpointError
from leanrnn.integrations.hub import from_pretrained, save_pretrained

EXAMPLE = torch.randn(2, 5, 4)


class Tagger(nn.Module):
    def __init__(self, hidden=8, classes=3):
        super().__init__()
        self.lstm = nn.LSTM(4, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Mixed(Tagger):
    """As ``PyTorchModelHubMixin`` leaves it."""

    def __init__(self, hidden=8, classes=3):
        super().__init__(hidden, classes)
        self._hub_mixin_config = {"hidden": hidden, "classes": classes}


class Config:
    def __init__(self, hidden=8, **other):
        self.hidden = hidden

    def to_dict(self):
        return {"hidden": self.hidden, "model_type": "tagger"}


class Pretrained(Tagger):
    """As transformers has it."""

    config_class = Config

    def __init__(self, config):
        super().__init__(config.hidden)
        self.config = config


@pytest.mark.parametrize("model", [Tagger(9), Mixed(9), Pretrained(Config(9))], ids=lambda model: type(model).__name__)
def test_a_folder_is_read_again(model, tmp_path):
    groups = leanrnn.discover(model, EXAMPLE)
    small = leanrnn.shrink(model, groups, keep_widths={"lstm.l0": 5})
    config = {"hidden": 9} if type(model) is Tagger else None
    save_pretrained(small, tmp_path / "new" / "folder", config=config, example=EXAMPLE, scores={"loss": 0.25})
    again = from_pretrained(tmp_path / "new" / "folder", type(model))
    assert torch.equal(again(EXAMPLE), small(EXAMPLE)) and again.lstm.hidden_size == 5
    card = (tmp_path / "new" / "folder" / "README.md").read_text()
    dense, weights = (sum(p.numel() for p in each.parameters()) for each in (model, small))
    for row in (f"| weights | {weights:,} of the {dense:,} weights", "| width of lstm.l0 | 5 |", "| loss | 0.25 |"):
        assert row in card
    assert f"| {leanrnn.measure(small, EXAMPLE, seconds=0.01).mult_adds:,} |" in card
    assert json.loads((tmp_path / "new" / "folder" / "config.json").read_text())["hidden"] == 9


def test_a_dense_model_can_be_published_too(tmp_path):
    model = Mixed()
    save_pretrained(model, tmp_path)
    assert "weights of the dense" not in (tmp_path / "README.md").read_text()
    assert torch.equal(from_pretrained(tmp_path, Mixed)(EXAMPLE), model(EXAMPLE))


def test_mistakes_are_told(tmp_path):
    with pytest.raises(CheckpointError, match="not plain data"):
        save_pretrained(Tagger(), tmp_path, config={"hidden": torch.zeros(1)})
    with pytest.raises(CheckpointError, match="there is no configuration"):
        from_pretrained(tmp_path, Tagger)
