"""What stands between and behind the recurrent parts of random architectures: norms, scales, activations, heads."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from tests.support.architecture_cells import Draw

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "elu": F.elu,
    "softplus": F.softplus,
    "clamp": lambda x: x.clamp(-1, 1),
    "square": lambda x: x**2,
    "shifted": lambda x: 0.5 - x,
    "softmax": lambda x: x.softmax(-1),
    "unit": lambda x: F.normalize(x, dim=-1),
    "reversed": lambda x: x.flip(0),
}
MODULES = (
    "layer", "rms", "batch", "flat_batch", "group", "dropout", "scale", "shift", "linear", "conv", "depthwise", "gate",
    "prelu",
)  # fmt: skip
HALVES: dict[str, Callable[[Tensor], Tensor]] = {
    "glu": lambda x: x[..., : x.size(-1) // 2] * torch.sigmoid(x[..., x.size(-1) // 2 :]),
    "torch_glu": lambda x: F.glu(x, -1),
    "maxout": lambda x: x.unflatten(-1, (2, -1)).max(-2).values,
    "pairs": lambda x: x.unflatten(-1, (-1, 2)).sum(-1),
}
"""Operations that make half the width of an even one."""


class Between(nn.Module):
    """One operation on ``[time, batch, width]`` that keeps time and batch."""

    def __init__(self, draw: Draw, width: int) -> None:
        super().__init__()
        self.kind = draw.pick([*ACTIVATIONS, *MODULES, *(HALVES if width % 2 == 0 and width > 2 else ())])
        self.out_width = width // 2 if self.kind in HALVES else width
        if self.kind in ("scale", "shift"):
            self.vector = nn.Parameter(torch.empty(width))
        elif self.kind in ("linear", "gate"):
            self.out_width = width if self.kind == "gate" else draw.size()
            self.part: nn.Module = nn.Linear(width, self.out_width, bias=draw.chance(0.8))
        elif self.kind == "conv":
            self.out_width = draw.size()
            self.part = nn.Conv1d(width, self.out_width, 3, padding=1)
        elif self.kind in MODULES:
            self.part = self._norm(draw, width)

    def _norm(self, draw: Draw, width: int) -> nn.Module:
        affine = draw.chance(0.85)
        groups = draw.pick([n for n in range(1, width + 1) if width % n == 0])
        return {
            "layer": lambda: nn.LayerNorm(width, elementwise_affine=affine),
            "rms": lambda: nn.RMSNorm(width, elementwise_affine=affine),
            "batch": lambda: nn.BatchNorm1d(width, affine=affine),
            "flat_batch": lambda: nn.BatchNorm1d(width, affine=affine),
            "group": lambda: nn.GroupNorm(groups, width, affine=affine),
            "dropout": lambda: nn.Dropout(0.3),
            "prelu": lambda: nn.PReLU(),
            "depthwise": lambda: nn.Conv1d(width, width, 3, padding=1, groups=width),
        }[self.kind]()

    def forward(self, x: Tensor) -> Tensor:
        if self.kind in ACTIVATIONS:
            return ACTIVATIONS[self.kind](x)
        if self.kind in HALVES:
            return HALVES[self.kind](x)
        if self.kind in ("scale", "shift"):
            return x * self.vector if self.kind == "scale" else x + self.vector
        if self.kind in ("batch", "group", "conv", "depthwise"):
            return self.part(x.permute(1, 2, 0)).permute(2, 0, 1)
        if self.kind == "flat_batch":
            return self.part(x.reshape(-1, x.size(-1))).view(x.shape)
        return x * torch.sigmoid(self.part(x)) if self.kind == "gate" else self.part(x)


HEADS = (
    "steps", "steps", "last", "first", "mean", "max", "sum", "attention", "additive", "dot", "flatten", "conv", "state",
    "mlp", "bilinear", "raw", "last_and_mean", "squeeze",
)  # fmt: skip


class Head(nn.Module):
    """From ``[time, batch, width]`` to the result; ``fixed_time`` says that only the example's length fits."""

    def __init__(self, draw: Draw, width: int, time: int) -> None:
        super().__init__()
        self.kind, classes = draw.pick(HEADS), draw.size()
        self.fixed_time = self.kind == "flatten"
        total = {"flatten": width * time, "last_and_mean": 2 * width}.get(self.kind, width)
        self.out: nn.Module = nn.Linear(total, classes, bias=draw.chance(0.8))
        if self.kind == "conv":
            self.out = nn.Conv1d(width, classes, 2)
        elif self.kind == "bilinear":
            self.out = nn.Bilinear(width, width, classes)
        elif self.kind == "mlp":
            inner = draw.size()
            self.out = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, classes))
        elif self.kind == "raw":
            self.out = nn.Identity()
        elif draw.chance(0.1):
            weight_norm(self.out)
        if self.kind in ("attention", "additive"):
            inner = 1 if self.kind == "attention" else draw.size()
            self.key, self.score = nn.Linear(width, inner), nn.Linear(inner, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "conv":
            return self.out(x.permute(1, 2, 0))
        if self.kind == "bilinear":
            return self.out(x[0], x[-1])
        return self.out(self.pooled(x))

    def pooled(self, x: Tensor) -> Tensor:
        if self.kind == "flatten":
            return x.transpose(0, 1).flatten(1)
        if self.kind in ("attention", "additive"):
            weights = (self.key(x) if self.kind == "attention" else self.score(torch.tanh(self.key(x)))).softmax(0)
            return (weights * x).sum(0)
        if self.kind == "dot":
            y = x.transpose(0, 1)
            return (y @ y.transpose(1, 2)).softmax(-1) @ y
        pools: dict[str, Callable[[], Tensor]] = {
            "last": lambda: x[-1],
            "state": lambda: x[-1],
            "first": lambda: x[0],
            "mean": lambda: x.mean(0),
            "max": lambda: x.max(0).values,
            "sum": lambda: x.sum(0),
            "last_and_mean": lambda: torch.cat([x[-1], x.mean(0)], -1),
            "squeeze": lambda: x[-1:].squeeze(0),
        }
        return pools[self.kind]() if self.kind in pools else x
