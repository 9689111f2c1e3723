"""``refit``: a smaller model at once, in which what reads a component was fitted again without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leanrnn.errors import GroupsError, LeanRNNWarning
from leanrnn.groups.budget import Budget
from leanrnn.groups.data import Layer, Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.keep import largest
from leanrnn.groups.norms import group_norms
from leanrnn.groups.numbers import check_numbers
from leanrnn.groups.wrapped import bare, wrapped_like
from leanrnn.refitting.products import Reading
from leanrnn.refitting.read import Read, read
from leanrnn.refitting.stand_in import Reader, damped, errors, stand_in
from leanrnn.running.copies import copy_model
from leanrnn.surgery.shrink import shrink, within

__all__ = ["refit"]


def refit(
    model: nn.Module,
    groups: Groups,
    batches: Iterable[Any],
    *,
    budget: Budget | None = None,
    keep_widths: Mapping[str, int] | None = None,
    output: Callable[[nn.Module, Any], Tensor] | None = None,
    example: Any = None,
) -> nn.Module:
    """A smaller model of the same class, cut out of a trained one, whose weights make up for what is gone.

    ``batches`` are inputs as the model is used on, a few dozen, each a tensor, a tuple or a mapping as for
    ``discover``; no labels are needed. Components go that the others can stand in for: the weights that read them are
    fitted to what stays, by least squares, so that what is read changes least. The error that is left says what a
    component is worth in its layer, every row of a weight by how much the result feels of it; all layers are worth the
    same. ``model`` itself stays as it is. ::

        small = leanrnn.refit(model, groups, batches, budget=leanrnn.Budget(mult_adds="50%"))

    This loses least without training, and is the best start for training on.

    Arguments:
        budget: what the smaller model may cost.
        keep_widths: instead of a budget, the number that stays, by layer name.
        output: what counts as the result, of the model and a batch, if that is not the first tensor that it returns:
            best what the loss will look at, ``lambda model, x: torch.cat(model(x), -1)``.
        example: the inputs to compare on, as ``shrink`` does; those of ``discover`` if left out.
    """
    if (budget is None) == (keep_widths is None):
        raise GroupsError("refit needs to know how small the model is to be. Give budget= or keep_widths=.")
    check_numbers(model, GroupsError)
    fitted, bound = _copy(model, groups)
    trainable = {name: p.requires_grad for name, p in fitted.named_parameters()}
    found = read(fitted.requires_grad_(True), bound, batches, output)
    for name, parameter in fitted.named_parameters():
        parameter.requires_grad_(trainable[name])
    _warn_of_unread(bound, found)
    norms = group_norms(bound)
    scores = {}
    for layer in bound:
        readers = _readers(layer, bound.tensors(), found)
        # Of a layer that nothing is known of, large weights count.
        worth = errors(layer.width, readers) if readers else norms[layer.name].detach().cpu().double().square()
        scores[layer.name] = _shares(worth)
    if budget is not None:
        masks = within(bound, budget.limits(groups), scores)
    else:
        masks = largest(bound, {name: s.numpy() for name, s in scores.items()}, keep_widths or {})
    for name, each in found.items():
        if not each.reading.elsewhere:
            _fit_(bound, name, each, masks)
    small = shrink(
        fitted, bound, keep={n: np.flatnonzero(m) for n, m in masks.items()},
        example=groups.example if example is None else example,
    )  # fmt: skip
    for name, module in bare(model).named_modules():  # from the outside in, as a module sets those in it
        small.get_submodule(name).train(module.training)
    return wrapped_like(model, small)


def _copy(model: nn.Module, groups: Groups) -> tuple[nn.Module, Groups]:
    """A copy in evaluation mode, and the groups speaking of it."""
    copied = copy_model(bare(model)).eval()
    bound = Groups(groups.layers).bind(copied)
    bound.remembered = groups.remembered
    return copied, bound


def _readers(layer: Layer, tensors: Mapping[str, Tensor], found: Mapping[str, Read]) -> list[Reader]:
    """What reads a layer, ready to tell what its components cost."""
    readers = []
    for name in layer.readers:
        if name in found:
            each, weight = found[name], _columns(tensors[name], found[name].axis).to("cpu", torch.float64)
            strips = [s for s in layer.strips if s.tensor == name and s.reader]
            gram = torch.zeros_like(each.reading.moments)
            gram[:-1, :-1] = (weight * each.felt[:, None]).T @ weight
            positions = torch.from_numpy(np.concatenate([s.positions for s in strips]))
            components = torch.from_numpy(np.concatenate([s.components for s in strips]))
            readers.append(Reader(gram, _inverse(each.reading), positions, components))
    return readers


def _shares(costs: Tensor) -> Tensor:
    """Parts of what the whole layer costs: what one layer loses, training makes up for better than it does in another,
    so all layers are worth the same."""
    return costs / costs.sum().clamp_min(torch.finfo(costs.dtype).tiny)


def _inverse(reading: Reading) -> Tensor:
    """Of the moments; where nothing can be fitted, as if no number could stand in for another."""
    moments = damped(reading.moments)
    if reading.elsewhere:
        return moments.diagonal().reciprocal().diag()
    if reading.bias is None:
        moments[-1, :-1] = moments[:-1, -1] = 0
    inverse: Tensor = torch.linalg.inv(moments)
    return inverse


@torch.no_grad()
def _fit_(groups: Groups, name: str, each: Read, masks: Masks) -> None:
    """Let the columns that stay take over what they can tell of those that leave."""
    weight, size = _columns(groups.tensors()[name], each.axis), len(each.reading.moments) - 1
    leaving = np.zeros(size, dtype=np.bool_)
    for _, layer, strip in groups.strips()[name]:
        if strip.axis == each.axis:
            leaving[strip.positions[~masks[layer.name][strip.components]]] = True
    gone, stays = np.flatnonzero(leaving), np.flatnonzero(~leaving)
    if not len(gone) or not len(stays):
        return
    known = np.append(stays, size) if each.reading.bias is not None else stays
    taken = weight[:, gone].to("cpu", torch.float64) @ stand_in(each.reading.moments, known, gone).T
    weight[:, stays] += taken[:, : len(stays)].to(weight)
    if each.reading.bias is not None:
        bias = groups.tensors()[each.reading.bias]
        bias += taken[:, -1].to(bias)


def _columns(weight: Tensor, axis: int) -> Tensor:
    """The weight with what it is multiplied along as its columns."""
    return weight.detach() if axis == 1 else weight.detach().T


def _warn_of_unread(groups: Groups, found: Mapping[str, Read]) -> None:
    """Say what stays as it is."""
    readers = dict.fromkeys(name for layer in groups for name in layer.readers)
    left = [name for name in readers if name not in found or found[name].reading.elsewhere]
    left += [f"what reads {layer.name} besides weights" for layer in groups if layer.needs_zero_bias]
    if left:
        message = f"refit leaves {', '.join(left)} as they are: they are more than plain matrix products."
        warnings.warn(message, LeanRNNWarning, stacklevel=3)
