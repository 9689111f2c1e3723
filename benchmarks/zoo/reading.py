"""Reading text in pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Built, entry


class Features(nn.Module):
    """A stand-in for the backbone, which the model takes as an argument; its decoder asks for 512 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 512, 3, 8, 1)

    def forward(self, picture: Tensor) -> dict[str, Tensor]:
        """Features under the name the model asks for."""
        return {"features": self.convolution(picture)}


@entry(
    "python-doctr",
    "doctr.models.recognition.sar.pytorch.SAR",
    "last state of two layers into a decoder that runs one LSTMCell as both of its layers, attention over a picture",
)
def doctr_sar() -> Built:
    """Six letters, three steps."""
    from doctr.models.recognition.sar.pytorch import SAR

    sizes = {"rnn_units": 512, "embedding_units": 512, "attention_units": 8}
    model = SAR(Features(), vocab="abcdef", max_length=3, exportable=True, **sizes)
    return model.eval(), (torch.randn(1, 3, 32, 64),)


@entry(
    "easyocr",
    "easyocr.model.vgg_model.Model",
    "bidirectional layer, linear layer, twice, after convolutions; an argument that nobody reads",
)
def easyocr_crnn_vgg() -> Built:
    """Ten characters."""
    from easyocr.model.vgg_model import Model

    return Model(1, 32, 8, 10).eval(), (torch.randn(2, 1, 32, 64), torch.zeros(2, 4, dtype=torch.long))


@entry(
    "kraken",
    "kraken.lib.vgsl.TorchVGSLModel",
    "a net written as a string: one layer sums up the columns of a picture, two read along its rows, packed",
)
def kraken_vgsl() -> Built:
    """Five characters."""
    from kraken.lib.vgsl import TorchVGSLModel

    model = TorchVGSLModel(vgsl="[1,16,0,1 Cr3,3,4 Mp2,2 Lfys6 Lbx8 Lbx8 O1c5]")
    return model.eval(), (torch.randn(2, 1, 16, 24), torch.tensor([24, 20]))
