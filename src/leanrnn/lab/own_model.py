"""A loop for a model, data and a loss of one's own: it trains within a budget, and cuts on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import DataError
from leanrnn.lab.phase import phase_of
from leanrnn.running import arguments, call, leaves

__all__ = ["Epoch", "fit", "judge"]

FITTED = 32
"""Batches that a cut model is fitted to before it is trained."""
Data = Callable[[], Iterable[Any]]
"""Called for every epoch; gives batches, each a pair of inputs and target."""
Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True)
class Epoch:
    """How far it is: the mean loss of the labels, the widths, the phase, and the seconds it took."""

    number: int
    loss: float
    widths: dict[str, int]
    phase: str
    seconds: float


def fit(
    model: nn.Module, groups: leanrnn.Groups, data: Data, loss: Loss, *, budget: leanrnn.Budget, epochs: int,
    rate: float = 1e-3, teacher: float = 0.0, told: Callable[[Epoch], object] = print,
) -> nn.Module:  # fmt: skip
    """Train with Adam until the model holds the budget and the epochs are over; returns the smaller model. The rate is
    constant for half of the steps, then falls to zero in a line.

    Without a teacher ``model`` becomes smaller in place, while it trains. With a ``teacher`` it counts as trained: it
    stays as it is, a smaller one is cut out of it by ``refit``, and that part of the loss is the distance to what the
    model says. ::

        fit(model, groups, lambda: loader, cross_entropy, budget=leanrnn.Budget(mult_adds="25%"), epochs=10)
    """
    steps = epochs * _length(data)
    says, small = None, model
    if teacher:
        says = leanrnn.Teacher(model)
        inputs = (inputs for inputs, _ in _pairs(data, model))
        small = leanrnn.refit(model, groups, islice(inputs, FITTED), budget=budget)
        groups = leanrnn.discover(small, groups.example)
    optimizer = torch.optim.Adam(small.train().parameters(), lr=rate)
    slower = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 2 * (1 - step / steps)))
    sparsifier = None if teacher else leanrnn.Sparsifier(groups, budget=budget, steps=steps).attach(optimizer)
    for number in range(1, epochs + 1):
        began, losses = time.perf_counter(), []
        for inputs, target in _pairs(data, small):
            scores = _scores(call(small, inputs))
            value = _one_number(loss(scores, target))
            losses.append(value.detach())
            if says is not None:
                args, kwargs = arguments(inputs)
                value = leanrnn.distil(scores, _scores(says(*args, **kwargs)), value, weight=teacher)
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            slower.step()
        mean = float(torch.stack(losses).mean())
        if mean != mean:
            raise DataError(f"the loss of epoch {number} is not a number. Try a smaller --rate.")
        progress = sparsifier.status().progress if sparsifier else None
        phase = phase_of(progress.phase if progress else "recover")
        told(Epoch(number, mean, groups.widths, phase, time.perf_counter() - began))
    if sparsifier is None:
        return small
    sparsifier.detach()
    return leanrnn.shrink(model, groups)


@torch.no_grad()
def judge(model: nn.Module, data: Data, loss: Loss) -> float:
    """The mean loss over all batches, in evaluation mode."""
    training = model.training
    model.eval()
    losses = [loss(_scores(call(model, inputs)), target) for inputs, target in _pairs(data, model)]
    model.train(training)
    return float(torch.stack(losses).mean())


def _one_number(value: Tensor) -> Tensor:
    if value.dim():
        raise DataError(f"the loss has shape {tuple(value.shape)}. Return one number, such as its mean.")
    return value


def _length(data: Data) -> int:
    batches = data()
    try:
        length = len(batches)  # type: ignore[arg-type]
    except TypeError:
        length = sum(1 for _ in batches)
    if not length:
        raise DataError("the data has no batch. Return batches of (inputs, target), anew whenever it is called.")
    return length


def _pairs(data: Data, model: nn.Module) -> Iterator[tuple[Any, Any]]:
    """Batches, on the device of the model."""
    device = next(model.parameters()).device
    for batch in data():
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            kind = f"{len(batch)} parts" if isinstance(batch, tuple | list) else f"a {type(batch).__name__}"
            raise DataError(f"a batch of the data is {kind}. Make it a pair: (inputs, target).")
        yield _moved(batch[0], device), _moved(batch[1], device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(each, device) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_moved(each, device) for each in value)
    return value


def _scores(output: Any) -> Tensor:
    """The result of a model that may return a state as well: its first tensor."""
    tensors = leaves(output)
    if not tensors:
        raise DataError(f"the model returned a {type(output).__name__} without a tensor. Return the result first.")
    return tensors[0]
