"""The loss of a model that learns from another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax

from leanrnn.errors import ConfigError, DataError
from leanrnn.teaching.soft_targets import SoftTargets

__all__ = ["distil"]

Kind = Literal["scores", "embedding", "regression"]
Reduction = Literal["mean", "sum"]
Taught = Tensor | SoftTargets


def distil(
    outputs: Tensor | Sequence[Tensor],
    taught: Taught | Sequence[Taught],
    loss: Tensor | None = None,
    *,
    weight: float = 0.5,
    temperature: float = 1.0,
    kind: Kind = "scores",
    mask: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """How far ``outputs`` are from what a teacher says, mixed with the loss of the labels. ::

        scores = model(x)
        loss = leanrnn.distil(scores, teacher(x), cross_entropy(scores, y))

    The result is ``(1 - weight) * loss + weight * distance``; without ``loss`` it is the distance alone. Of several
    outputs, given as a sequence, the distances are added up.

    Args:
        outputs: of the model that learns. The last axis has the classes, or the numbers of an embedding.
        taught: the same of the teacher: a tensor of that shape, or :class:`~leanrnn.SoftTargets`.
        weight: of the teacher, from 0 to 1.
        temperature: scores are divided by it, in both models, before the softmax. The distance is multiplied by its
            square, so that gradients keep their size.
        kind: "scores" before a softmax: the Kullback-Leibler divergence; "embedding": one minus the cosine;
            "regression": the mean of squares.
        mask: which positions count, in the shape of ``outputs`` without its last axis: no padding.
        reduction: over positions. "mean" goes with a loss that is a mean over positions, "sum" with a sum; a loop
            that divides its sum by the batch does so here as well.
    """
    if not 0 <= weight <= 1:
        raise ConfigError(f"weight is {weight}. Give the teacher's part of the loss, from 0 to 1.")
    if not temperature > 0:
        raise ConfigError(f"temperature is {temperature}. Give a positive number; 1 changes nothing.")
    if kind not in _DISTANCES:
        raise ConfigError(f"there is no kind {kind!r}. Choose {', '.join(_DISTANCES)}.")
    if reduction not in ("mean", "sum"):
        raise ConfigError(f"there is no reduction {reduction!r}. Choose mean or sum.")
    pairs = _pairs(outputs, taught)
    distance = torch.stack([_distance(o, t, temperature, kind, mask, reduction) for o, t in pairs]).sum()
    return distance if loss is None else (1 - weight) * loss + weight * distance


def _pairs(outputs: Tensor | Sequence[Tensor], taught: Taught | Sequence[Taught]) -> list[tuple[Tensor, Taught]]:
    """Outputs beside what is taught of each."""
    mine = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    theirs = [taught] if isinstance(taught, Tensor | SoftTargets) else list(taught)
    if len(mine) != len(theirs) or not mine:
        raise DataError(f"there are {len(mine)} outputs and {len(theirs)} of the teacher. Give as many of both.")
    for output, soft in zip(mine, theirs, strict=True):
        shape = soft.shape if isinstance(soft, Tensor) else soft.classes.shape[:-1]
        if shape != (output.shape if isinstance(soft, Tensor) else output.shape[:-1]):
            raise DataError(
                f"an output has shape {tuple(output.shape)} and the teacher's {tuple(shape)}. Ask both models for the "
                "same inputs; they have to have the same classes."
            )
    return list(zip(mine, theirs, strict=True))


def _distance(
    output: Tensor, taught: Taught, temperature: float, kind: Kind, mask: Tensor | None, reduction: Reduction
) -> Tensor:
    """Over all positions that count."""
    if mask is not None:
        if mask.shape != output.shape[:-1]:
            raise DataError(f"the mask has shape {tuple(mask.shape)}, and the positions {tuple(output.shape[:-1])}.")
        mask = mask.bool()
        # Before any logarithm: a NaN in the padding would come back through the gradient, even where it is masked.
        output = torch.where(mask.unsqueeze(-1), output, 0.0)
    if isinstance(taught, SoftTargets):
        if kind != "scores" or temperature != taught.temperature:
            raise DataError(
                f"soft targets are of scores at temperature {taught.temperature}, and kind={kind!r} at temperature "
                f"{temperature} was asked for. Use the same, or record them again."
            )
        each = _from_some(output, taught)
    else:
        # A teacher that ran in half of the bits is compared in those of the student.
        taught = taught.detach().to(output.dtype)
        taught = taught if mask is None else torch.where(mask.unsqueeze(-1), taught, 0.0)
        each = _DISTANCES[kind](output, taught, temperature)
    if mask is None:
        return each.mean() if reduction == "mean" else each.sum()
    total = torch.where(mask, each, 0.0).sum()
    return total if reduction == "sum" else total / mask.sum().clamp(min=1)


def _divergence(output: Tensor, taught: Tensor, temperature: float) -> Tensor:
    logs, wanted = log_softmax(output / temperature, -1), log_softmax(taught / temperature, -1)
    return _expected(wanted, logs) * temperature**2


def _from_some(output: Tensor, soft: SoftTargets) -> Tensor:
    """The divergence where all classes that are not in the list count as one."""
    logs = log_softmax(output / soft.temperature, -1).gather(-1, soft.classes.long())
    wanted = soft.logs.to(logs.dtype)
    if soft.classes.size(-1) == output.size(-1):
        return _expected(wanted, logs) * soft.temperature**2
    logs, wanted = (torch.cat([each, _rest(each)], -1) for each in (logs, wanted))
    return _expected(wanted, logs) * soft.temperature**2


def _rest(logs: Tensor) -> Tensor:
    """The logarithm of what is left to one, which rounding must not make zero or less: then there is no gradient."""
    tiny = torch.finfo(logs.dtype).eps
    return torch.log((1 - logs.exp().sum(-1, keepdim=True)).clamp(min=tiny))


def _expected(wanted: Tensor, logs: Tensor) -> Tensor:
    """The divergence of logarithms. A class that the teacher rules out (minus infinity) adds nothing."""
    probabilities = wanted.exp()
    return torch.where(probabilities > 0, probabilities * (wanted - logs), 0.0).sum(-1)


def _cosine(output: Tensor, taught: Tensor, temperature: float) -> Tensor:
    return 1 - cosine_similarity(output, taught, dim=-1)


def _squares(output: Tensor, taught: Tensor, temperature: float) -> Tensor:
    return (output - taught).square().mean(-1)


_DISTANCES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "scores": _divergence,
    "embedding": _cosine,
    "regression": _squares,
}
