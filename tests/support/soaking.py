"""Examine one random architecture: discover, zero by hand, shrink, compare; and say what was pinned."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.groups.groups import Groups, Layer, named_tensors
from leanrnn.groups.wrapped import bare
from leanrnn.running.call import leaves
from leanrnn.running.compare import difference, run
from leanrnn.running.copies import copy_model
from tests.support.architectures import Architecture

TOLERANCE = 1e-12


@dataclass
class Outcome:
    """What became of one architecture; ``faults`` is empty if all is well."""

    offered: dict[str, list[str]] = field(default_factory=dict)
    """Names of the widths that can shrink, by kind of recurrent part."""
    pinned: dict[str, list[str]] = field(default_factory=dict)
    """Reasons of those that cannot."""
    dropped: list[str] = field(default_factory=list)
    """Widths that only the proof took back: each is a rule that says too little."""
    faults: list[str] = field(default_factory=list)
    cut: int = 0


def examine(built: Architecture, rng: random.Random, thorough: bool = True) -> Outcome:
    """Discover with and without proof, cut a random part, and compare in both modes and for other inputs.

    ``thorough`` also discovers and cuts without proof where no width failed in it.
    """
    outcome, model, example = Outcome(), built.model, built.example
    scope = "all" if rng.randint(0, 3) == 0 else "recurrent"
    before = copy.deepcopy(model.state_dict())
    proven = leanrnn.discover(model, example, scope=scope)
    hurried = not thorough and not proven.failed
    loose = proven if hurried else leanrnn.discover(model, example, scope=scope, prove=False)
    if any(not torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True)):
        outcome.faults.append("discover changed the model")
    reasons = dict(proven.pinned)
    gone = [la for la in loose if la.name not in proven.names]
    outcome.dropped = [f"{la.name}: {reasons.get(la.name)}" for la in gone if not _expected(built, reasons, la.name)]
    _take_stock(built, proven, gone, outcome)
    for groups in (proven, loose) if thorough and not gone else (proven,):
        keep = random_keep(groups, rng)
        if keep:
            zeroed, small = zeroed_by_hand(model, groups, keep), leanrnn.shrink(model, groups, keep=keep)
            outcome.faults += differences(built, zeroed, small)
            outcome.cut += len(keep)
    return outcome


def random_keep(groups: Groups, rng: random.Random) -> dict[str, list[int]]:
    """Which components stay, at least one of each layer; some layers keep all."""
    keep = {}
    for layer in groups:
        if rng.randint(0, 4):
            keep[layer.name] = sorted(rng.sample(range(layer.width), rng.randint(1, layer.width)))
    return keep


@torch.no_grad()
def zeroed_by_hand(model: nn.Module, groups: Groups, keep: dict[str, list[int]]) -> nn.Module:
    """A copy with the groups of all other components at zero, from ``layer.slices`` alone."""
    zeroed = copy_model(model)
    tensors = named_tensors(bare(zeroed))
    for name, kept in keep.items():
        layer = groups[name]
        carried = {(s.tensor, s.axis) for s in layer.strips if s.role == "carried"}
        for k in set(range(layer.width)) - set(kept):
            for tensor, axis, index in layer.slices(k):
                if (tensor, axis) not in carried and isinstance(tensors[tensor], nn.Parameter):
                    tensors[tensor].select(axis, index).zero_()
    return zeroed


def differences(built: Architecture, zeroed: nn.Module, small: nn.Module) -> Iterator[str]:
    """Every way in which the smaller model is not the zeroed one."""
    sizes = [(built.time, built.batch), (built.time + 2, built.batch), (2, built.batch + 1)]
    for training in (False, True):
        zeroed.train(training)
        small.train(training)
        for time, batch in sizes:
            if training and batch * time < 4:
                continue  # a batch norm over so few numbers leaves nothing but rounding
            inputs = built.inputs(time, batch)
            apart = difference(run(zeroed, inputs), run(small, inputs))
            if not apart <= TOLERANCE:
                yield f"time {time} batch {batch} training {training}: {apart:.1e}"
    if getattr(built.model, "takes_state", False):
        apart = difference(_carried(built, zeroed.eval()), _carried(built, small.eval()))
        if not apart <= TOLERANCE:
            yield f"state carried on: {apart:.1e}"


@torch.no_grad()
def _carried(built: Architecture, model: nn.Module) -> list[Tensor]:
    """Results of two calls, the second of which is given the state that the first returned."""
    given: Any = built.inputs(built.time, built.batch)
    first = model(given)
    result, states = first if isinstance(first, tuple) else (first["result"], first["states"])
    second = model(given, None, states)
    return [result, leaves(second)[0]]


def _expected(built: Architecture, reasons: dict[str, str], name: str) -> bool:
    """What only a trial can tell: the caller's input is as wide as the layer, or Python code insists on a width."""
    return built.insists or "which the caller hands in" in reasons.get(name, "")


def _take_stock(built: Architecture, groups: Groups, gone: Sequence[Layer], outcome: Outcome) -> None:
    """Sort widths by kind of part; a recurrent part of which nothing is said at all is a fault."""
    for prefix, kind in built.kinds.items():
        mine = f"{prefix}."
        layers = [la.name for la in groups if any(s.tensor.startswith(mine) for s in la.strips if not s.reader)]
        pins = [reason for name, reason in groups.pinned if name == prefix or name.startswith(mine)]
        outcome.offered.setdefault(kind, []).extend(layers)
        outcome.pinned.setdefault(kind, []).extend(pins)
        tried = any(s.tensor.startswith(mine) for la in gone for s in la.strips)
        if not layers and not pins and not tried:
            outcome.faults.append(f"nothing is said of {prefix}")
