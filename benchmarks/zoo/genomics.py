"""Sequencing of DNA."""

from __future__ import annotations

import torch

from benchmarks.zoo.entry import Built, entry


@entry(
    "ont-bonito",
    "bonito.nn.LSTM",
    "single layers that alternate in direction by flipping time, as in bonito.crf.Model",
)
def bonito_ctc_crf() -> Built:
    """Convolutions, three layers, the encoder of a conditional random field."""
    from bonito.nn import LSTM, Convolution, LinearCRFEncoder, Permute, Serial, Swish

    first = Convolution(1, 4, 5, stride=1, padding=2, activation=Swish())
    second = Convolution(4, 12, 9, stride=5, padding=4, activation=Swish())
    layers = [LSTM(12, 12, reverse=reverse) for reverse in (True, False, True)]
    scores = LinearCRFEncoder(12, 4, 2, bias=True, activation="tanh", scale=5.0)
    return Serial([first, second, Permute([2, 0, 1]), *layers, scores]).eval(), (torch.randn(2, 1, 60),)


@entry("medaka", "medaka.architectures.gru.GRUModel", "two bidirectional layers; the model holds a logger")
def medaka_gru() -> Built:
    """Five bases."""
    from medaka.architectures.gru import GRUModel

    model = GRUModel(num_features=10, num_classes=5, gru_size=8, n_layers=2, bidirectional=True)
    return model.eval(), (torch.rand(2, 9, 10),)
