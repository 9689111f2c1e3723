"""Language: language models, translation, layers for text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.zoo.entry import Built, Hold, entry


class Reset(nn.Module):
    """A language model that keeps its states, made to forget them before each call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor) -> tuple[Tensor, ...]:
        """Scores, and the hidden states the model hands out beside them."""
        self.model.reset()
        return self.model(words)


@entry(
    "fastai",
    "fastai.text.models.core.get_language_model(AWD_LSTM)",
    "weight drop, embedding and output share their weight, states kept in a list, outputs of the layers returned",
    holds=(
        Hold(
            "reaches output 1",
            "Interface",
            "`LinearDecoder.forward` returns the outputs of the last layer beside the scores "
            "(`fastai/text/models/core.py:47`).",
        ),
    ),
)
def fastai_awdlstm() -> Built:
    """Three layers, tied."""
    from fastai.text.models.awdlstm import AWD_LSTM, awd_lstm_lm_config
    from fastai.text.models.core import get_language_model

    config = {**awd_lstm_lm_config, "emb_sz": 8, "n_hid": 12, "n_layers": 3}
    return Reset(get_language_model(AWD_LSTM, 20, config=config)).eval(), (torch.randint(2, 20, (2, 6)),)


@entry(
    "OpenNMT-py",
    "onmt.models.NMTModel",
    "packed bidirectional encoder into a decoder of LSTMCells whose attention result is fed back as input",
    holds=(
        Hold(
            "onmt/modules/global_attention.py",
            "The model's code",
            "`attn_h = self.linear_out(concat_c).view(batch, target_l, dim)` takes the encoder's width for the "
            "model's own result, which keeps its width. That holds the last layers.",
        ),
        Hold(
            "onmt/decoders/decoder.py",
            "The model's code",
            "The states of all layers go to the decoder as one tensor (`_fix_enc_hidden`), so the first layers cannot "
            "be narrower than the last.",
        ),
    ),
)
def onmt_nmt() -> Built:
    """Two layers on both sides."""
    from onmt.decoders.decoder import InputFeedRNNDecoder
    from onmt.encoders.rnn_encoder import RNNEncoder
    from onmt.models import NMTModel
    from onmt.modules import Embeddings

    source, target = Embeddings(8, 20, 1), Embeddings(8, 20, 1)
    encoder = RNNEncoder("LSTM", True, 2, 12, 0.0, source)
    decoder = InputFeedRNNDecoder("LSTM", True, 2, 12, attn_type="general", embeddings=target)
    for lookup in (*source.modules(), *target.modules()):
        if isinstance(lookup, nn.Embedding):
            lookup.reset_parameters()  # left to whoever trains it: the memory is as it was found
    words = torch.randint(2, 20, (2, 5, 1)), torch.randint(2, 20, (2, 4, 1))
    return NMTModel(encoder, decoder).eval(), (*words, torch.tensor([5, 3]))


class Packed(nn.Module):
    """A layer that wants a packed sequence, some also its lengths, and a linear head."""

    def __init__(self, layer: nn.Module, width: int, told: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.told = layer, nn.Linear(width, 3), told

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Three scores for every step."""
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        out, _ = self.layer(packed, lengths) if self.told else self.layer(packed)
        return self.head(pad_packed_sequence(out, batch_first=True)[0])


@entry(
    "allennlp",
    "allennlp.modules.stacked_bidirectional_lstm.StackedBidirectionalLstm",
    "LSTM with highway gates written in Python, a loop over packed batches",
    states={"*.state_linearity.weight": (1, 1)},
    older=True,
)
def allennlp_stacked_highway() -> Built:
    """Two layers, both directions."""
    from allennlp.modules.stacked_bidirectional_lstm import StackedBidirectionalLstm

    model = Packed(StackedBidirectionalLstm(8, 6, 2, use_highway=True), 12)
    return model.eval(), (torch.randn(2, 5, 8), torch.tensor([5, 3]))


@entry(
    "stanza",
    "stanza.models.common.hlstm.HighwayLSTM",
    "packed bidirectional layers with a highway gate around each: sums tie all widths to one",
)
def stanza_highway() -> Built:
    """Two layers."""
    from stanza.models.common.hlstm import HighwayLSTM

    layer = HighwayLSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True, highway_func=torch.tanh)
    return Packed(layer, 12, told=True).eval(), (torch.randn(2, 5, 8), torch.tensor([5, 3]))


class WeightDrop(nn.Module):
    """A layer with weight drop, attention of its outputs over themselves, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        from torchnlp.nn import Attention, WeightDropLSTM

        self.layer = WeightDropLSTM(8, 6, weight_dropout=0.3, batch_first=True)
        self.attention, self.head = Attention(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Three scores for every step."""
        hidden = self.layer(x)[0].contiguous()
        return self.head(self.attention(hidden, hidden)[0])


@entry(
    "pytorch-nlp",
    "torchnlp.nn.WeightDropLSTM",
    "forward replaced by a closure that makes the recurrent weight in every call; attention",
)
def torchnlp_weightdrop() -> Built:
    """One layer."""
    return WeightDrop().eval(), (torch.randn(2, 5, 8),)
