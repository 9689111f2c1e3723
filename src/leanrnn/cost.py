"""What a model costs: weights, mult-adds, milliseconds, memory."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from leanrnn.environment import check_threads, peak_bytes
from leanrnn.errors import DataError
from leanrnn.groups import check_numbers, count_weights
from leanrnn.running import call, refused

__all__ = ["Measurement", "measure", "mult_adds"]

Shape = tuple[int, ...]
ROUNDS = 10  # calls at the least, however long they take


@dataclass(frozen=True)
class Measurement:
    """What :func:`measure` returns."""

    weights: int
    """Numbers in all parameters, frozen ones too, shared ones counted once."""
    mult_adds: int
    """Multiplications with addition in matrix products and convolutions, of one call."""
    milliseconds: float
    """Median of one call."""
    quartiles: tuple[float, float]
    """A quarter of the calls took less than the first, a quarter more than the second."""
    calls: int
    """That were timed."""
    threads: int
    peak_bytes: int
    """By how much the calls raised the largest memory the process ever had; a fresh process tells more."""


def measure(model: nn.Module, example: Any, *, threads: int | None = None, seconds: float = 2.0) -> Measurement:
    """Weights, mult-adds, time and memory of ``model(example)``, in evaluation mode, without gradients. ::

    leanrnn.measure(small, torch.zeros(30, 10, dtype=torch.long)).milliseconds

    Args:
        example: as for ``discover``: a tensor, a tuple of positional inputs, or a dict of keyword inputs.
        threads: that torch may use; as many as it has now if not given.
        seconds: spent on timing, after a few calls that do not count.
    """
    check_numbers(model, DataError)
    if threads is not None:
        check_threads(threads)
    before, training = torch.get_num_threads(), model.training
    torch.set_num_threads(threads or before)
    model.eval()
    try:
        with torch.inference_mode():
            peak = peak_bytes()
            spent = _timed(model, example, seconds)
            peak = peak_bytes() - peak
        low, middle, high = statistics.quantiles(spent, n=4, method="inclusive")
        return Measurement(
            count_weights(model), mult_adds(model, example), middle * 1e3, (low * 1e3, high * 1e3), len(spent),
            threads or before, peak,
        )  # fmt: skip
    finally:
        torch.set_num_threads(before)
        model.train(training)


def mult_adds(model: nn.Module, example: Any) -> int:
    """Multiplications with addition in one call: in matrix products, with vectors too, and in convolutions. ::

    mult_adds(model, torch.zeros(30, 10, dtype=torch.long)) // 300   # for a word
    """
    with warnings.catch_warnings(), torch.no_grad(), _frozen(model):
        warnings.simplefilter("ignore")  # switching oneDNN warns about Intel GPUs on every machine without one
        # With oneDNN or cuDNN an LSTM is a single operator, which the counter does not know.
        with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False, custom_mapping=_UNCOUNTED) as counter:
                _call(model, example)
    return int(counter.get_total_flops()) // 2


def _call(model: nn.Module, example: Any) -> None:
    try:
        call(model, example)
    except Exception as error:
        raise DataError(refused(model, example, error)) from error


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Without parameters that want a gradient: the counter stumbles over models that switch gradients on themselves."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    try:
        for parameter in wanted:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)


def _all_pairs(first: Shape, second: Shape, third: Shape, *more: Any, **kwargs: Any) -> int:
    return 2 * math.prod(second) * math.prod(third)


def _of_matrix(matrix: Shape, *more: Any, **kwargs: Any) -> int:
    return 2 * math.prod(matrix)


def _of_added_matrix(summand: Shape, matrix: Shape, *more: Any, **kwargs: Any) -> int:
    return 2 * math.prod(matrix)


def _of_batch(summand: Shape, left: Shape, right: Shape, *more: Any, **kwargs: Any) -> int:
    return 2 * math.prod(left) * right[-1]


def _of_window(value: Shape, weight: Shape, *more: Any, out_shape: Shape, **kwargs: Any) -> int:
    return 2 * math.prod(weight) * math.prod(out_shape[:2])


def _of_three(first: Shape, weight: Shape, *more: Any, **kwargs: Any) -> int:
    return 2 * math.prod(weight) * first[0]


_aten = torch.ops.aten
_UNCOUNTED: dict[Any, Any] = {
    _aten.mv: _of_matrix, _aten.dot: _of_matrix, _aten.vdot: _of_matrix, _aten.addmv: _of_added_matrix,
    _aten.addr: _all_pairs, _aten.addbmm: _of_batch, _aten.conv_tbc: _of_window, _aten._trilinear: _of_three,
}  # fmt: skip
"""Products that torch's own counter passes over."""


def _timed(model: nn.Module, example: Any, seconds: float) -> list[float]:
    """Seconds of every call, for so long and at least ten times."""
    for _ in range(3):
        _call(model, example)
    spent: list[float] = []
    end = time.perf_counter() + seconds
    while len(spent) < ROUNDS or time.perf_counter() < end:
        began = time.perf_counter()
        call(model, example)
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        spent.append(time.perf_counter() - began)
    return spent
