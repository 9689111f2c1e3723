"""Milliseconds of this machine as a function of the widths: fitted to a few models that were timed, and corrected by
what is timed later."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls
from torch import nn

from leanrnn.deploy.export import export
from leanrnn.deploy.runtimes import RUNTIMES, Call, File, model_call
from leanrnn.deploy.timing import in_turns, quartiles
from leanrnn.environment import check_threads
from leanrnn.errors import BudgetError
from leanrnn.groups.costs import Cost
from leanrnn.groups.groups import Groups
from leanrnn.groups.numbers import check_numbers
from leanrnn.running.call import leaves
from leanrnn.running.copies import copy_model
from leanrnn.running.steps import Steps
from leanrnn.surgery.cut import cut_

__all__ = ["Latency", "fit_latency", "fitted"]

SAMPLES = 15  # models that are timed, at the least


@dataclass
class Latency:
    """What :func:`fit_latency` returns: milliseconds of one call at any widths. ::

    latency.at(groups.widths | {"rnn.l0": 100})
    """

    cost: Cost
    """As it was fitted."""
    runtime: str
    threads: int
    example: Any
    error: float
    """The largest relative difference between the fit and what was timed."""
    timed: list[tuple[dict[str, int], float]] = field(default_factory=list)
    """Widths and milliseconds, those of later corrections at the end."""
    factor: float = 1.0
    """What corrections came to."""

    def at(self, widths: Mapping[str, Any]) -> Any:
        """Milliseconds at these widths."""
        return self.cost.at(widths) * self.factor

    def timed_at(self, widths: Mapping[str, int]) -> float:
        """Milliseconds that were timed last at these widths, or fitted if none were."""
        return next((found for each, found in reversed(self.timed) if each == dict(widths)), float(self.at(widths)))

    def correct(self, model: nn.Module, widths: Mapping[str, int], seconds: float = 1.0) -> float:
        """Time ``model``, which has these widths, and agree with that from now on; its milliseconds."""
        with tempfile.TemporaryDirectory() as folder:
            found = _milliseconds([_caller(model, self.example, self.runtime, self.threads, Path(folder))], seconds)[0]
        self.timed.append((dict(widths), found))
        self.factor = found / max(float(self.cost.at(widths)), 1e-9)
        return found


def fit_latency(
    model: nn.Module,
    groups: Groups,
    *,
    runtime: str = "torch",
    example: Any = None,
    threads: int = 1,
    seconds: float = 10.0,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Latency:
    """Time ``model`` at some fifteen random widths, and fit milliseconds as a function of the widths, for a budget. ::

        latency = leanrnn.fit_latency(model, groups, runtime="onnxruntime")
        small = leanrnn.shrink(model, groups, budget=leanrnn.Budget(milliseconds="50%", latency=latency))

    Arguments:
        runtime: torch, or onnxruntime (extra ``onnx``): there every model is exported first, which takes a while.
        example: inputs of the size that is to be fast; those of ``discover`` if left out.
        threads: that the runtime may use.
        seconds: of timing, all models together; they take turns.
        samples: models to time, the one as it is among them.
    """
    if runtime not in ("torch", "onnxruntime"):
        raise BudgetError(f"milliseconds are measured in torch or onnxruntime, and not in {runtime!r}.")
    check_threads(threads)
    check_numbers(model, BudgetError)
    extra = RUNTIMES[runtime].extra
    if extra is not None:
        extra.check()
    given = groups.example if example is None else example
    given = given.example if isinstance(given, Steps) else given
    widths = _random_widths(groups, max(samples, len(groups) + 3), seed)
    with tempfile.TemporaryDirectory() as folder:
        calls = []
        for i, each in enumerate(widths):
            small = _narrow(model, groups, each)
            calls.append(_caller(small, given, runtime, threads, Path(folder, str(i))))
        spent = _milliseconds(calls, seconds)
    timed = list(zip(widths, spent, strict=True))
    cost = fitted(groups.costs.mult_adds, timed)
    error = max(abs(cost.at(each) / found - 1) for each, found in timed)
    return Latency(cost, runtime, threads, given, error, timed)


def fitted(mult_adds: Cost, timed: Sequence[tuple[Mapping[str, int], float]]) -> Cost:
    """Milliseconds as a constant, a number for the products of every layer, and one for all components: the best there
    are that are not negative, for the sum of squared relative errors. ::

        fitted(groups.costs.mult_adds, [({"rnn.l0": 200}, 1.2), ({"rnn.l0": 100}, 0.7), ...])
    """
    parts = [*_by_layer(mult_adds), Cost({(name,): 1 for name in timed[0][0]}), Cost({(): 1})]
    rows = np.array([[float(part.at(widths)) for part in parts] for widths, _ in timed])
    spent = np.array([found for _, found in timed])
    # Columns of one size, or the solver stops early; rows divided by what they ought to give.
    scale = np.maximum(rows.max(axis=0), 1.0)
    factors = nnls(rows / scale / spent[:, None], np.ones(len(spent)))[0] / scale
    terms: dict[tuple[str, ...], float] = {}
    for part, factor in zip(parts, factors.tolist(), strict=True):
        for names, number in part.terms.items():
            terms[names] = terms.get(names, 0.0) + number * factor
    return Cost({names: number for names, number in terms.items() if number})


def _by_layer(cost: Cost) -> list[Cost]:
    """The terms of a cost, apart for every layer that a product ends in."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for names, number in cost.terms.items():
        if names:
            found.setdefault(names[-1], {})[names] = number
    return [Cost(terms) for terms in found.values()]


def _random_widths(groups: Groups, count: int, seed: int) -> list[dict[str, int]]:
    """As it is, as narrow as can be, and between them."""
    rng = np.random.default_rng(seed)
    found = [groups.widths, dict.fromkeys(groups.names, 1)]
    while len(found) < count:
        found.append({name: int(rng.integers(1, width, endpoint=True)) for name, width in groups.widths.items()})
    return found


def _narrow(model: nn.Module, groups: Groups, widths: Mapping[str, int]) -> nn.Module:
    """A copy with the first components of every layer."""
    bound = Groups(groups.layers).bind(model)
    bound.remembered = groups.remembered
    small = copy_model(bound.model).eval()
    cut_(small, bound, bound.keep_mask({name: range(width) for name, width in widths.items()}))
    return small


def _caller(model: nn.Module, example: Any, runtime: str, threads: int, folder: Path) -> Call:
    if runtime == "torch":
        return model_call(model, example, threads)
    folder.mkdir(exist_ok=True)
    written = export(model, example, folder / "model.onnx")
    sizes = {
        length: tensor.size(axis)
        for tensor, axes in zip(leaves(example), written.inputs.values(), strict=False)
        for axis, length in enumerate(axes)
        if isinstance(length, str)
    }
    return File(written.path, runtime, sizes).caller(threads)


def _milliseconds(calls: Sequence[Call], seconds: float) -> list[float]:
    spent = in_turns(dict(enumerate(calls)), seconds)
    return [quartiles(each)[1] * 1e3 for each in spent.values()]
