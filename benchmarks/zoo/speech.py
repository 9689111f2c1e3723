"""Speech: recognition, synthesis, speakers, activity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Built, Hold, entry


@entry(
    "coqui-tts",
    "TTS.tts.models.tacotron2.Tacotron2",
    "packed bidirectional encoder; two LSTMCells and location-sensitive attention in a loop, states kept as attributes",
)
def coqui_tacotron2() -> Built:
    """The published size."""
    from TTS.tts.configs.tacotron2_config import Tacotron2Config
    from TTS.tts.models.tacotron2 import Tacotron2

    model = Tacotron2(Tacotron2Config(num_chars=20, out_channels=80, r=2))
    text, lengths = torch.randint(0, 20, (2, 5)), torch.tensor([5, 4])
    return model.eval(), (text, lengths, torch.randn(2, 6, 80), torch.tensor([6, 6]))


@entry(
    "pyannote-audio",
    "pyannote.audio.models.segmentation.PyanNet",
    "SincNet, two bidirectional layers, linear layers; a Lightning module",
)
def pyannote_pyannet() -> Built:
    """Speaker segmentation with two classes."""
    from pyannote.audio.core.task import Problem, Resolution, Specifications
    from pyannote.audio.models.segmentation import PyanNet

    sizes = {"hidden_size": 8, "num_layers": 2}
    model = PyanNet(lstm=sizes, linear=sizes)
    model.specifications = Specifications(
        problem=Problem.MULTI_LABEL_CLASSIFICATION,
        resolution=Resolution.FRAME,
        duration=1.0,
        classes=["a", "b"],
        permutation_invariant=True,
    )
    model.build()
    return model.eval(), (torch.randn(1, 1, 8000),)


class Forgetful(nn.Module):
    """A model that keeps its state between calls, made to forget it before each."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, sound: Tensor) -> Tensor:
        """One window of 16 kHz sound."""
        self.model.reset_states()
        return self.model(sound, 16000)


@entry(
    "silero-vad",
    "silero_vad.load_silero_vad",
    "TorchScript, with the trained weights that come in the package",
    states={"model._model.decoder.rnn.weight_hh": (1, 1)},
    holds=(
        Hold(
            "TorchScript",
            "Not Python",
            "For torch the package has the model as a compiled program only.",
        ),
    ),
)
def silero_vad_jit() -> Built:
    """Voice activity, as published."""
    from silero_vad import load_silero_vad

    return Forgetful(load_silero_vad(onnx=False)).eval(), (torch.randn(2, 512) * 0.1,)


@entry(
    "speechbrain",
    "speechbrain.lobes.models.CRDNN.CRDNN",
    "Li-GRU written in Python, BatchNorm on its gates, a loop over time",
    states={"*.u.weight": (1, 1)},
)
def speechbrain_crdnn_ligru() -> Built:
    """Convolutions, two recurrent layers, linear layers."""
    from speechbrain.lobes.models.CRDNN import CRDNN

    sizes = {"cnn_blocks": 1, "cnn_channels": [4], "dnn_blocks": 1, "dnn_neurons": 8}
    return CRDNN(input_size=20, rnn_layers=2, rnn_neurons=8, **sizes).eval(), (torch.randn(2, 6, 20),)


@entry(
    "torchaudio",
    "torchaudio.models.rnnt.emformer_rnnt_model",
    "LSTM written in Python with LayerNorm on gates and cell state, beside an Emformer",
    states={"*.p2g.weight": (1, 1)},
)
def torchaudio_rnnt() -> Built:
    """A transducer: transcriber, predictor, joiner."""
    from torchaudio.models.rnnt import emformer_rnnt_model

    model = emformer_rnnt_model(
        input_dim=8,
        encoding_dim=8,
        num_symbols=10,
        segment_length=4,
        right_context_length=1,
        time_reduction_input_dim=8,
        time_reduction_stride=1,
        transformer_num_heads=2,
        transformer_ffn_dim=8,
        transformer_num_layers=1,
        transformer_dropout=0.0,
        transformer_activation="relu",
        transformer_left_context_length=2,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        symbol_embedding_dim=6,
        num_lstm_layers=2,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
        lstm_dropout=0.0,
    )
    sound, symbols = torch.randn(1, 9, 8), torch.randint(0, 10, (1, 4))
    lengths = torch.tensor([8], dtype=torch.int32), torch.tensor([4], dtype=torch.int32)
    return model.eval(), (sound, lengths[0], symbols, lengths[1])


@entry(
    "espnet",
    "espnet2.lm.seq_rnn_lm.SequentialRNNLM",
    "language model of a recogniser; embedding and output share their weight; states in and out",
)
def espnet_seqrnnlm() -> Built:
    """Two layers, tied."""
    from espnet2.lm.seq_rnn_lm import SequentialRNNLM

    return SequentialRNNLM(20, unit=8, nlayers=2, tie_weights=True).eval(), (torch.randint(0, 20, (2, 5)), None)
