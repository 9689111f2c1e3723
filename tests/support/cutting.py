"""A model cut beside the same model zeroed, and models with modules of every kind to cut."""

import copy

import numpy as np
import torch
from torch import nn

from leanrnn.groups.groups import Groups, Layer
from leanrnn.running.compare import difference, run
from leanrnn.surgery.cut import cut_
from leanrnn.surgery.zeroing import zero_
from tests.support.stacks import INPUTS, Tagger, strip

KEEP = [0, 2, 3, 5]


def cut_pair(model, groups, masks, plain=True):
    """The zeroed and the cut copy."""
    zeroed, small = copy.deepcopy(model), copy.deepcopy(model)
    zero_(zeroed, groups, masks)
    cut_(small, groups, masks, plain)
    return zeroed, small


def assert_exact(model, groups, masks, example, plain=True):
    zeroed, small = cut_pair(model, groups, masks, plain)
    assert difference(run(zeroed, example), run(small, example)) < 1e-12
    return zeroed, small


def one_layer(strips, width=6, name="width", **options) -> Groups:
    return Groups([Layer(name, width, tuple(strips), **options)])


class Tied(Tagger):
    """One stack under two names, a head whose weight also stands in a list and in a second module."""

    def __init__(self):
        super().__init__()
        self.twin = self.rnn
        self.again = nn.Linear(6, 4)
        self.again.weight = self.head.weight
        self.kept = {"all": [self.head.weight, (self.head.bias,)]}

    def forward(self, x):
        hidden, _ = self.twin(x)
        return self.head(hidden) + self.again(hidden) + hidden @ self.kept["all"][0].t()


class Mixed(nn.Module):
    """Hidden units of a cell that pass through nearly every kind of module with a width."""

    def __init__(self, cell="LSTMCell"):
        super().__init__()
        self.cell = getattr(nn, cell)(INPUTS, 6)
        self.batch = nn.BatchNorm1d(6)
        self.norm, self.rms, self.groups = nn.LayerNorm(6), nn.RMSNorm(6), nn.GroupNorm(2, 6)
        self.scale = nn.ParameterList([nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6, 4))])
        self.depth = nn.Conv1d(6, 12, 3, padding=1, groups=6)
        self.conv = nn.ConvTranspose1d(12, 5, 3, padding=1)
        self.both = nn.Bilinear(6, 6, 3)

    def forward(self, x, state=None):
        hidden = []
        for step in x:
            state = self.cell(step, state)
            hidden.append(state[0] if isinstance(state, tuple) else state)
        h = torch.stack(hidden, -1)
        wide = self.conv(self.depth(self.batch(h)))
        flat = h[..., -1] * self.scale[0]
        return wide, flat @ self.scale[1], self.both(flat, flat), self.normed(h.transpose(1, 2))

    def normed(self, h):
        groups = self.groups(h.transpose(1, 2)).transpose(1, 2)
        return (self.norm(h) + self.rms(h) + groups) @ self.scale[1]


def mixed_groups(model) -> Groups:
    strips = [strip(model, f"cell.weight_{p}", 0, 6, "weight") for p in ("ih", "hh")]
    strips += [strip(model, f"cell.bias_{p}", 0, 6, "bias") for p in ("ih", "hh")]
    strips += [strip(model, name, 0, 6, "carried") for name in ("batch.running_mean", "batch.running_var")]
    vectors = [f"{n}.{p}" for n in ("batch", "norm", "groups") for p in ("weight", "bias")]
    strips += [strip(model, name, 0, 6, "bias") for name in [*vectors, "rms.weight", "scale.0"]]
    strips += [strip(model, name, 1, 6, "weight") for name in ("cell.weight_hh", "both.weight")]
    strips += [strip(model, "both.weight", 2, 6, "weight"), strip(model, "scale.1", 0, 6, "weight")]
    doubled = strip(model, "depth.weight", 0, 6, "weight")
    for name, axis in (("depth.weight", 0), ("depth.bias", 0), ("conv.weight", 0)):
        shape = tuple(model.get_parameter(name).shape)
        role = "bias" if name.endswith("bias") else "weight"
        strips.append(type(doubled)(name, axis, shape, np.arange(12), np.arange(12) // 2, role))
    return one_layer(strips, needs_zero_bias=True)
