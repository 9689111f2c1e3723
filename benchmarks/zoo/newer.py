"""Newer recurrences: gates without a matrix from state to state, matrix memories, linear and complex ones."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Built, Hold, entry


class Read(nn.Module):
    """Features into a recurrence as wide as they are, a linear head behind it."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.inward, self.layer, self.head = nn.Linear(5, width), layer, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Three scores for every step."""
        return self.head(self.layer(self.inward(x)))


def _xlstm(**blocks: Any) -> Built:
    from xlstm import xLSTMLMModel, xLSTMLMModelConfig

    size = {"vocab_size": 20, "embedding_dim": 16, "num_blocks": 2, "context_length": 8}
    model = xLSTMLMModel(xLSTMLMModelConfig(**size, **blocks))
    model.reset_parameters()
    return model.eval(), (torch.randint(0, 20, (2, 6)),)


@entry(
    "xlstm",
    "xlstm.xLSTMLMModel, sLSTM blocks",
    "four states in one tensor, recurrent weights by heads, a stabiliser that is a maximum, group norm over heads",
    states={"*.xlstm.group_norm.weight": (0, 1)},
    holds=(
        Hold(
            "is seen whole by all",
            "The model's code",
            "`if torch.all(n == 0.0)` (`xlstm/blocks/slstm/src/vanilla/slstm.py:25`) asks all units at once. Behind it "
            "their output goes through a group norm into a residual sum, whose norms see it: `weight_proxy` of "
            "`xlstm/components/ln.py` is `1.0 + self.weight`, so a unit of zero weights is not zero behind them.",
        ),
    ),
)
def xlstm_slstm() -> Built:
    """Two blocks with a feed-forward layer each."""
    from xlstm import FeedForwardConfig, sLSTMBlockConfig, sLSTMLayerConfig

    layer = sLSTMLayerConfig(backend="vanilla", num_heads=2, conv1d_kernel_size=4)
    return _xlstm(slstm_block=sLSTMBlockConfig(slstm=layer, feedforward=FeedForwardConfig()), slstm_at=[0, 1])


@entry(
    "xlstm",
    "xlstm.xLSTMLMModel, mLSTM blocks",
    "a matrix as memory, in its parallel form over all pairs of steps; projections in small blocks, a learned skip",
    states={"*.xlstm.proj_down.weight": (1, 1)},
)
def xlstm_mlstm() -> Built:
    """Two blocks."""
    from xlstm import mLSTMBlockConfig, mLSTMLayerConfig

    return _xlstm(mlstm_block=mLSTMBlockConfig(mlstm=mLSTMLayerConfig(num_heads=2, qkv_proj_blocksize=4)))


ORDER = (
    ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "w0", "w1", "w2", "a0", "a1", "a2", "v0", "v1", "v2", "g1", "g2"),
    ("k_k", "k_a", "r_k", "R", "K", "V", "O", "ln_w", "ln_b"),
)
"""What RWKV-7's time mixing is handed, in its order."""


class TimeMixing(nn.Module):
    """A layer of RWKV-7: its time mixing with norm and sum around it, as in the package's ``forward_seq``."""

    def __init__(self, index: int, heads: int, size: int) -> None:
        super().__init__()
        self.index, self.heads, self.size, wide = index, heads, size, heads * size
        shapes = {name: (wide,) for names in ORDER for name in names} | {name: (wide, wide) for name in "RKVO"}
        shapes |= {f"{name}1": (wide, 3) for name in "wavg"} | {f"{name}2": (3, wide) for name in "wavg"}
        self.of = nn.ParameterDict({name: torch.randn(shape) / 4 for name, shape in shapes.items()})
        self.norm = nn.LayerNorm(wide)

    def forward(self, x: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """The sum, and the values of the first layer, which all others read."""
        from rwkv.model import RWKV_x070_TMix_seq

        weights = [self.of[name] for names in ORDER for name in names]
        before, state = torch.zeros_like(x[0]), x.new_zeros(self.heads, self.size, self.size)
        told = self.index, self.heads, self.size, self.norm(x), before, first, state
        out, _, _, first = RWKV_x070_TMix_seq(*told, *weights)
        return x + out, first


class Goose(nn.Module):
    """Two layers of time mixing between an embedding and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(20, 16), nn.ModuleList(TimeMixing(i, 2, 8) for i in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 20)

    def forward(self, words: Tensor) -> Tensor:
        """Scores for every step of one text."""
        x = self.words(words)
        first = torch.empty_like(x)
        for layer in self.layers:
            x, first = layer(x, first)
        return self.head(self.norm(x))


@entry(
    "rwkv",
    "rwkv.model.RWKV_x070_TMix_seq",
    "RWKV-7: a matrix as the state of a head, changed by products of vectors; group norm over heads",
    states={"layers.*.of.V": (1, 1)},
)
def rwkv7_time_mixing() -> Built:
    """Two layers of two heads."""
    os.environ |= {"RWKV_JIT_ON": "0", "RWKV_V7_ON": "1"}
    return Goose().eval(), (torch.randint(0, 20, (6,)),)


@entry(
    "minGRU-pytorch",
    "minGRU_pytorch.minGRU",
    "gates of the input alone; the whole sequence at once by logcumsumexp",
    states={"layer.to_out.weight": (1, 1)},
)
def mingru() -> Built:
    """One layer, wider inside."""
    from minGRU_pytorch import minGRU

    return Read(minGRU(dim=8, expansion_factor=1.5), 8).eval(), (torch.randn(2, 6, 5),)


@entry(
    "minGRU-pytorch",
    "minGRU_pytorch.minLSTM.minLSTM",
    "two gates of the input alone, as one forgets the other writes; the whole sequence at once",
    states={"layer.to_out.weight": (1, 1)},
)
def minlstm() -> Built:
    """One layer, wider inside."""
    from minGRU_pytorch.minLSTM import minLSTM

    return Read(minLSTM(dim=8, expansion_factor=1.5), 8).eval(), (torch.randn(2, 6, 5),)


class GatedRecurrence(nn.Module):
    """HGRN's token mixing in plain torch, around the package's own reference of its kernel."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.i_proj, self.f_proj, self.g_proj = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.g_norm, self.o_proj = nn.RMSNorm(inner, eps=1e-5), nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The mixed sequence."""
        from fla.ops.hgrn.naive import naive_recurrent_hgrn

        forget = nn.functional.logsigmoid(self.f_proj(x))
        inward = nn.functional.silu(self.i_proj(x)) * (1 - forget.exp())
        out, _ = naive_recurrent_hgrn(inward, forget)
        return self.o_proj(self.g_norm(out) * nn.functional.silu(self.g_proj(x)))


@entry(
    "fla-core",
    "fla.ops.hgrn.naive.naive_recurrent_hgrn",
    "HGRN: a linear recurrence whose gates read the input alone, written into one tensor step by step",
    states={"layer.o_proj.weight": (1, 1)},
)
def fla_hgrn() -> Built:
    """One layer, wider inside."""
    return Read(GatedRecurrence(8, 12), 8).eval(), (torch.randn(2, 6, 5),)


@entry(
    "transformers",
    "transformers.RecurrentGemmaForCausalLM",
    "RG-LRU of Griffin: gates by block-diagonal weights, a root with a backward of its own; states kept as attributes",
    states={"*.rg_lru.recurrent_param": (0, 1)},
)
def griffin_rglru() -> Built:
    """Two recurrent blocks and one of attention."""
    from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

    size = {"vocab_size": 20, "hidden_size": 16, "lru_width": 16, "intermediate_size": 24, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "attention_window_size": 8}
    model = RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**size, **heads, use_cache=False))
    return model.eval(), (torch.randint(0, 20, (2, 6)),)


@entry(
    "mambapy",
    "mambapy.mamba.Mamba",
    "a selective scan, step by step in torch; a short convolution before it, decays of every channel and state",
    states={"*.mixer.out_proj.weight": (1, 1)},
)
def mambapy_mamba() -> Built:
    """Two layers."""
    from mambapy.mamba import Mamba, MambaConfig

    layers = Mamba(MambaConfig(d_model=8, n_layers=2, d_state=4, pscan=False))
    return Read(layers, 8).eval(), (torch.randn(2, 6, 5),)


@entry(
    "LRU-pytorch",
    "LRU_pytorch.LRU",
    "a linear recurrence of complex numbers, its weights complex too; a loop over sequences and steps",
    states={"layer.nu_log": (0, 1)},
)
def lru_complex() -> Built:
    """One layer."""
    from LRU_pytorch import LRU

    return Read(LRU(8, 8, 12, rmin=0.5, rmax=0.9), 8).eval(), (torch.randn(2, 6, 5),)
