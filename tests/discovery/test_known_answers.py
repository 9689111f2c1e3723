"""Group sizes that are known beforehand, found by discovery alone."""

import pytest
import torch
from torch import Tensor, nn

from leanrnn import discover
from tests.support.families import RHN


class LanguageModel(nn.Module):
    """The paper's stacked LSTM on Penn Treebank."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10000, width)
        self.rnn = nn.LSTM(width, width, 2)
        self.head = nn.Linear(width, 10000)

    def forward(self, words: Tensor, state=None):
        hidden, state = self.rnn(self.embedding(words), state)
        return self.head(hidden), state


class LastLayers(nn.Module):
    """The last layers of BiDAF: ``g1``, its attended summary and their product all feed the output LSTM."""

    def __init__(self, d: int = 100) -> None:
        super().__init__()
        options = {"bidirectional": True, "batch_first": True}
        self.g0, self.g1 = nn.LSTM(8 * d, d, **options), nn.LSTM(2 * d, d, **options)
        self.g2 = nn.LSTM(14 * d, d, **options)
        self.start, self.end = nn.Linear(10 * d, 1), nn.Linear(10 * d, 1)

    def forward(self, p0: Tensor) -> tuple[Tensor, Tensor]:
        g1 = self.g1(self.g0(p0)[0])[0]
        start = self.start(torch.cat([g1, p0], -1)).squeeze(-1)
        a1i = (start.softmax(-1).unsqueeze(1) @ g1).expand_as(g1)
        g2 = self.g2(torch.cat([p0, g1, a1i, g1 * a1i], -1))[0]
        return start, self.end(torch.cat([g2, p0], -1)).squeeze(-1)


@pytest.mark.parametrize(("width", "sizes"), [(1500, (24000, 28000)), (650, (10400, 17800)), (200, (3200, 12400))])
def test_penn_treebank(width, sizes):
    with torch.device("meta"):
        groups = discover(LanguageModel(width), torch.zeros(3, 2, dtype=torch.long))
    assert [(la.width, la.group_size) for la in groups] == [(width, size) for size in sizes]
    assert [la.distinct_size for la in groups] == [size - 4 for size in sizes]
    assert groups[0].readers == ("rnn.weight_hh_l0", "rnn.weight_ih_l1")
    assert groups[1].readers == ("rnn.weight_hh_l1", "head.weight")


def test_penn_treebank_embedding_width_is_a_class_like_any_other():
    groups = discover(LanguageModel(200), torch.zeros(3, 2, dtype=torch.long), scope="all", prove=False)
    assert groups.widths == {"embedding": 200, "rnn.l0": 200, "rnn.l1": 200}
    assert groups["embedding"].group_size == 10000 + 800
    assert not groups["embedding"].recurrent


def test_recurrent_highway_network():
    with torch.device("meta"):
        groups = discover(RHN(10000, 830, 10), torch.zeros(3, 2, dtype=torch.long))
    (layer,) = groups
    assert (layer.width, layer.group_size, layer.distinct_size) == (830, 46520, 46498)


def test_bidaf_has_the_path_the_paper_left_out():
    groups = discover(LastLayers(), torch.randn(2, 4, 800))
    assert [la.group_size for la in groups] == [4800, 4800, 4001, 4001, 6401, 6401]
    assert [la.distinct_size for la in groups] == [4796, 4796, 3997, 3997, 6397, 6397]


def test_removal_set_has_biases_and_buffers():
    model = nn.Sequential(nn.GRU(3, 4), _First(), _Transposed(nn.BatchNorm1d(4)), nn.Linear(4, 2))
    (layer,) = discover(model, torch.randn(5, 2, 3))
    names = {(tensor, axis) for tensor, axis, _ in layer.slices(2)}
    assert {("0.bias_ih_l0", 0), ("2.norm.running_mean", 0), ("2.norm.running_var", 0), ("2.norm.weight", 0)} <= names
    # Three gates' rows of weight_ih (3 x 3) and weight_hh (3 x 4), its column (12), the column of the head (2).
    assert layer.group_size == 9 + 12 + 12 + 2


class _First(nn.Module):
    def forward(self, value):
        return value[0]


class _Transposed(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, value: Tensor) -> Tensor:
        return self.norm(value.permute(1, 2, 0)).permute(2, 0, 1)
