"""Sound: separation, noise removal, watermarks."""

from __future__ import annotations

import sys
from types import ModuleType

import torch

from benchmarks.zoo.entry import Built, entry


@entry(
    "asteroid",
    "asteroid.models.DPRNNTasNet",
    "bidirectional layers along two axes of a folded signal, normalisation over all channels, residual sums",
)
def asteroid_dprnn() -> Built:
    """Two speakers, two blocks."""
    from asteroid.models import DPRNNTasNet

    sizes = {"out_chan": 8, "bn_chan": 8, "hid_size": 6, "n_filters": 8}
    model = DPRNNTasNet(n_src=2, chunk_size=10, n_repeats=2, kernel_size=16, stride=8, **sizes)
    return model.eval(), (torch.randn(1, 800),)


@entry(
    "audioseal",
    "audioseal.libs.audiocraft.modules.seanet.SEANetEncoderKeepDimension",
    "two layers inside a convolutional encoder, with a residual sum around both",
)
def audioseal_detector() -> Built:
    """The detector's encoder."""
    from audioseal.libs.audiocraft.modules.seanet import SEANetEncoderKeepDimension

    model = SEANetEncoderKeepDimension(channels=1, dimension=8, n_filters=2, ratios=[4, 2], lstm=2, output_dim=4)
    return model.eval(), (torch.randn(1, 1, 800),)


@entry(
    "DeepFilterNet",
    "df.deepfilternet3.DfNet",
    "GRUs between grouped linear layers (an einsum with block-diagonal weights), skip sums, complex filters",
)
def deepfilternet3() -> Built:
    """The published size."""
    # The package imports a module that torchaudio no longer has, for one name in an annotation.
    backend, common = ModuleType("torchaudio.backend"), ModuleType("torchaudio.backend.common")
    common.AudioMetaData = object  # type: ignore[attr-defined]
    backend.common = common  # type: ignore[attr-defined]
    sys.modules.update({"torchaudio.backend": backend, "torchaudio.backend.common": common})
    from df.config import config

    config.use_defaults()
    from df.deepfilternet3 import ModelParams, init_model
    from libdf import DF

    p = ModelParams()
    frames = DF(p.sr, p.fft_size, p.hop_size, p.nb_erb, p.min_nb_freqs)
    spectrum, bands = torch.randn(1, 1, 6, p.fft_size // 2 + 1, 2), torch.randn(1, 1, 6, p.nb_erb)
    return init_model(frames).to("cpu").eval(), (spectrum, bands, torch.randn(1, 1, 6, p.nb_df, 2))


@entry(
    "demucs",
    "demucs.demucs.Demucs",
    "bidirectional layers at the bottom and inside convolution blocks, over chunks that overlap",
)
def demucs_demucs() -> Built:
    """Two sources, three levels."""
    from demucs.demucs import Demucs

    inner = {"dconv_mode": 3, "dconv_lstm": 1, "dconv_attn": 99}
    sizes = {"channels": 8, "depth": 3, "lstm_layers": 2, "norm_starts": 2}
    model = Demucs(sources=["a", "b"], samplerate=8000, segment=1, **sizes, **inner)
    return model.eval(), (torch.randn(1, 2, 2000),)


@entry(
    "openunmix",
    "openunmix.model.OpenUnmix",
    "three bidirectional layers; their input is concatenated to their output; BatchNorm",
)
def openunmix_umx() -> Built:
    """One source out of a stereo spectrogram."""
    from openunmix.model import OpenUnmix

    return OpenUnmix(nb_bins=33, nb_channels=2, hidden_size=16, nb_layers=3).eval(), (torch.rand(2, 2, 33, 10),)
