"""Time series: forecasting, classification, missing values."""

from __future__ import annotations

import dataclasses
import logging

import torch
from torch import Tensor

from benchmarks.zoo.entry import Built, Hold, entry


@entry(
    "darts",
    "darts.models.RNNModel",
    "two layers; their last states are a second result; the input is a dataclass",
)
def darts_rnn() -> Built:
    """The module is made by fitting, and its input by predicting: neither can be had otherwise."""
    logging.disable(logging.WARNING)
    import numpy as np
    from darts import TimeSeries
    from darts.models import RNNModel

    quiet = dict.fromkeys(("enable_progress_bar", "logger", "enable_checkpointing", "enable_model_summary"), False)
    sizes = {"input_chunk_length": 8, "training_length": 12, "hidden_dim": 8, "n_rnn_layers": 2}
    trainer = {"accelerator": "cpu", **quiet}
    forecaster = RNNModel(model="LSTM", n_epochs=1, random_state=0, pl_trainer_kwargs=trainer, **sizes)
    forecaster.fit(TimeSeries.from_values(np.sin(np.arange(60) / 3).astype("float32")), verbose=False)
    seen = []
    hook = forecaster.model.register_forward_pre_hook(
        lambda _, args, more: seen.append((*args, *more.values())[0]), with_kwargs=True
    )
    forecaster.predict(3, verbose=False)
    hook.remove()
    fields = {field.name: getattr(seen[0], field.name) for field in dataclasses.fields(seen[0])}
    # Seen under inference mode: made anew, outside.
    plain = {name: torch.as_tensor(value.numpy().copy()) for name, value in fields.items() if isinstance(value, Tensor)}
    return forecaster.model.cpu().float().eval(), (seen[0].replace(**plain),)


@entry(
    "gluonts",
    "gluonts.torch.model.deepar.module.DeepARModel",
    "the same LSTM unrolled over the past and step by step over the future, fed with its own samples",
)
def gluonts_deepar() -> Built:
    """Three steps ahead, two samples."""
    from gluonts.torch.model.deepar.module import DeepARModel

    counts = {"num_feat_dynamic_real": 1, "num_feat_static_real": 1, "num_feat_static_cat": 1, "cardinality": [3]}
    sizes = {"hidden_size": 8, "num_layers": 2, "lags_seq": [1, 2], "num_parallel_samples": 2}
    model = DeepARModel(freq="D", context_length=6, prediction_length=3, **counts, **sizes)
    static, past = (torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 1)), model._past_length
    history = torch.randn(2, past, 1), torch.rand(2, past) + 1, torch.ones(2, past)
    return model.eval(), (*static, *history, torch.randn(2, 3, 1))


def _nixtla(name: str) -> Built:
    logging.disable(logging.WARNING)
    import neuralforecast.models as models

    sizes = {"encoder_hidden_size": 8, "decoder_hidden_size": 6, "decoder_layers": 2}
    model = getattr(models, name)(h=3, input_size=8, max_steps=1, **sizes)
    window = {
        "insample_y": torch.randn(2, 8, 1),
        "insample_mask": torch.ones(2, 8, 1),
        "futr_exog": torch.zeros(2, 11, 0),
        "hist_exog": torch.zeros(2, 8, 0),
        "stat_exog": torch.zeros(2, 0),
    }
    return model.eval(), (window,)


@entry(
    "neuralforecast",
    "neuralforecast.models.DilatedRNN",
    "LSTMs over every second, fourth, ... step, folded into the batch; residual sums",
)
def nf_dilatedrnn() -> Built:
    """Two groups of dilations."""
    return _nixtla("DilatedRNN")


@entry("neuralforecast", "neuralforecast.models.LSTM", "two layers and a decoder of linear layers")
def nf_lstm() -> Built:
    """Three steps ahead."""
    return _nixtla("LSTM")


@entry(
    "pytorch-forecasting",
    "pytorch_forecasting.TemporalFusionTransformer",
    "encoder and decoder LSTM started from a context, gates, sums and LayerNorm around everything, attention",
    holds=(
        Hold(
            "upsample_linear1d",
            "Mathematics",
            '`F.interpolate(x.unsqueeze(1), self.output_size, mode="linear")` stretches features over the '
            "hidden axis (`TimeDistributedInterpolation` in `sub_modules.py`): every unit is a mixture of its "
            "neighbours. Residual sums and LayerNorm tie all other widths of the model to that one.",
        ),
    ),
)
def pf_tft() -> Built:
    """Two series."""
    import numpy as np
    import pandas as pd
    from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet

    time = np.arange(40)
    curves = [(np.sin(time / 3 + k).astype("float32"), np.cos(time).astype("float32")) for k in range(2)]
    series = [pd.DataFrame({"g": str(k), "t": time, "y": y, "x": x}) for k, (y, x) in enumerate(curves)]
    data = TimeSeriesDataSet(
        pd.concat(series).reset_index(drop=True),
        time_idx="t",
        target="y",
        group_ids=["g"],
        max_encoder_length=8,
        min_encoder_length=4,
        max_prediction_length=3,
        static_categoricals=["g"],
        time_varying_known_reals=["x"],
        time_varying_unknown_reals=["y"],
        add_relative_time_idx=True,
        add_target_scales=True,
        add_encoder_length=True,
    )
    sizes = {"hidden_size": 8, "lstm_layers": 2, "attention_head_size": 2, "hidden_continuous_size": 4}
    model = TemporalFusionTransformer.from_dataset(data, output_size=3, **sizes)
    batch, _ = next(iter(data.to_dataloader(train=False, batch_size=3)))
    return model.eval(), (batch,)


@entry(
    "pypots",
    "pypots.nn.modules.brits.BackboneBRITS",
    "LSTMCells in two loops over a series with gaps, states multiplied by a learned decay; losses returned",
    holds=(
        Hold(
            "pypots/nn/modules/brits/backbone.py",
            "Missing rule",
            "`BackboneBRITS._reverse` turns all that the backward loop returns around in axis 1 with a constant "
            "index, also its last hidden state, where axis 1 is the hidden axis "
            "(`pypots/nn/modules/brits/backbone.py:231`).",
        ),
    ),
)
def pypots_brits() -> Built:
    """Forwards and backwards."""
    from pypots.nn.modules.brits import BackboneBRITS

    def series() -> dict[str, Tensor]:
        return {"X": torch.randn(2, 5, 4), "missing_mask": torch.ones(2, 5, 4), "deltas": torch.ones(2, 5, 4)}

    model = BackboneBRITS(n_steps=5, n_features=4, rnn_hidden_size=8)
    return model.eval(), ({"forward": series(), "backward": series()},)


@entry("tsai", "tsai.models.RNN_FCN.LSTM_FCN", "last step of an LSTM, concatenated with a convolutional branch")
def tsai_lstmfcn() -> Built:
    """Four classes."""
    from tsai.models.RNN_FCN import LSTM_FCN

    model = LSTM_FCN(3, 4, seq_len=12, hidden_size=8, rnn_layers=1, conv_layers=[8, 8, 8])
    return model.eval(), (torch.randn(2, 3, 12),)
