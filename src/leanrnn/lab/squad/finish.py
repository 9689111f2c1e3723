"""What is left at the end: the average of the weights, without what is dead in it, or was when training ended."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import leanrnn
from leanrnn.groups import alive
from leanrnn.lab.job import judging
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Inputs
from leanrnn.lab.squad.job import THRESHOLDED
from leanrnn.lab.squad.model import BiDAF

__all__ = ["all_scores", "shrunk"]


def shrunk(
    model: BiDAF, average: BiDAF, groups: leanrnn.Groups, config: SquadConfig, inputs: Inputs
) -> tuple[BiDAF, float]:
    """The average of a trained model without its dead components, and how far scores are from those with them.

    The average of a weight that training holds at zero is never quite zero. With ``last_threshold`` small ones become
    zero, which changes the answers a little, and components that nothing reads any more go, as in the paper. Without
    it, what is dead in the model goes from the average too, whatever is left of it there.
    """
    device = next(model.parameters()).device
    given = tuple(each.to(device) for each in inputs)
    if config.last_threshold:
        bound = leanrnn.Groups(groups.layers).bind(average)
        leanrnn.ElementThreshold(config.last_threshold, parameters=THRESHOLDED, biases=True).apply_(bound)
        small = _model(leanrnn.shrink(average, groups, keep=_read(bound), example=given))
        return small, _apart(average, small, given)
    keep = {name: np.flatnonzero(mask) for name, mask in alive(groups).items()}
    small = _model(leanrnn.shrink(average, groups, keep=keep, example=given))
    # Dead in training: cut out of the model itself, nothing changes.
    return small, _apart(model, _model(leanrnn.shrink(model, groups, example=given)), given)


def all_scores(model: BiDAF, inputs: tuple[Tensor, ...]) -> Tensor:
    """Of starts and ends, without dropout."""
    with judging(model):
        return torch.stack(model(*inputs))


def _apart(model: BiDAF, other: BiDAF, inputs: tuple[Tensor, ...]) -> float:
    return float((all_scores(model, inputs) - all_scores(other, inputs)).abs().max())


def _read(groups: leanrnn.Groups) -> dict[str, NDArray[np.int64]]:
    """Components that some weight reads. The others can go whatever makes them: the source's "coordination"."""
    tensors = groups.tensors()
    found = {}
    for layer in groups:
        living = np.zeros(layer.width, np.bool_)
        for strip in layer.strips:
            if strip.reader and strip.role == "weight":
                columns = tensors[strip.tensor].detach().movedim(strip.axis, 0).flatten(1)
                used = (columns != 0).any(1).cpu().numpy()[strip.positions]
                np.logical_or.at(living, strip.components, used)
        found[layer.name] = np.flatnonzero(living)
    return found


def _model(model: torch.nn.Module) -> BiDAF:
    assert isinstance(model, BiDAF)
    return model
