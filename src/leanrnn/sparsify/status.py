"""How far sparsification has come: widths, living components, quantiles of norms; for a log line or a logger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from leanrnn.groups.groups import Groups
from leanrnn.groups.norms import alive, group_norms

__all__ = ["LayerStatus", "Progress", "Status", "figures", "layer_status"]

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class LayerStatus:
    """One layer: its width, how many of its components are alive, and quantiles of the norms of all its groups."""

    name: str
    width: int
    alive: int
    norms: tuple[float, ...]
    """Smallest, lower quartile, median, upper quartile, largest."""


@dataclass(frozen=True)
class Progress:
    """How far a budget is."""

    phase: str
    """``warm up``, ``shrink`` or ``recover``, as it was in the last step; ``over`` after all of them."""
    costs: Mapping[str, tuple[float, float]]
    """By what the budget limits: what the model costs now, and the limit."""
    fading: Mapping[str, int]
    """By layer, how many components are on their way out."""

    def __str__(self) -> str:
        parts = [f"{name} {now:,.0f} of {limit:,.0f}" for name, (now, limit) in self.costs.items()]
        return ", ".join([self.phase, *parts])


@dataclass(frozen=True)
class Status:
    """What :meth:`Sparsifier.status` returns. ``str(status)`` is one line, ``status.as_dict()`` is flat. ::

    print(sparsifier.status())
    # step 4000 strength 0.002 penalty 1.84 | rnn.l0 169/200 norms 0 0.4 1.1 | rnn.l1 180/200 norms 0 0.6 1.3
    # step 6000 shrink, mult_adds 412,000 of 260,000 | rnn.l0 104/104 norms 0.9 1.4 2.2 | ...
    """

    step: int
    strength: float
    penalty: float
    """Strength times the value of the penalty: what the loss has on top."""
    layers: tuple[LayerStatus, ...]
    progress: Progress | None = None
    """How far the budget is, if there is one."""

    def __str__(self) -> str:
        aim = f"strength {self.strength:.3g} penalty {self.penalty:.4g}" if self.progress is None else self.progress
        head = f"step {self.step} {aim}"
        parts = [
            f"{la.name} {la.alive}/{la.width} norms {la.norms[0]:.2g} {la.norms[2]:.2g} {la.norms[4]:.2g}"
            for la in self.layers
        ]
        return " | ".join([head, *parts])

    def as_dict(self) -> dict[str, float]:
        """Flat names and numbers, as loggers want them: ``{"step": ..., "rnn.l0/alive": ..., ...}``."""
        found = figures(self.step, self.strength, {la.name: la.width for la in self.layers}, self.progress)
        found["penalty"] = self.penalty
        for layer in self.layers:
            found[f"{layer.name}/alive"] = layer.alive
            found |= {f"{layer.name}/norm_q{int(100 * q)}": n for q, n in zip(QUANTILES, layer.norms, strict=True)}
        return found


def figures(step: int, strength: float, widths: Mapping[str, int], progress: Progress | None) -> dict[str, float]:
    """What is known without the device, as loggers want it: ``{"step": 400, "rnn.l0/width": 169, ...}``.

    Of a budget: what the model costs (``cost/mult_adds``), what it may (``budget/mult_adds``), and the first divided by
    the second (``used/mult_adds``), which is 1 or less once the budget is met.
    """
    found: dict[str, float] = {"step": step, "strength": strength}
    for name, (now, limit) in progress.costs.items() if progress else ():
        found |= {f"cost/{name}": now, f"budget/{name}": limit, f"used/{name}": now / limit}
    return found | {f"{name}/width": width for name, width in widths.items()}


def layer_status(groups: Groups) -> tuple[LayerStatus, ...]:
    """The state of every layer now; reads numbers back from the device."""
    living, norms = alive(groups), group_norms(groups)
    return tuple(
        LayerStatus(
            layer.name,
            layer.width,
            int(living[layer.name].sum()),
            tuple(torch.quantile(norms[layer.name], norms[layer.name].new_tensor(QUANTILES)).tolist()),
        )
        for layer in groups
    )
