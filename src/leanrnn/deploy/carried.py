"""States that go into a model and come out of it, and which is which in the next call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from leanrnn.deploy.containers import tensors_of, with_tensors
from leanrnn.errors import ExportError
from leanrnn.running.call import arguments, call, leaves, positional
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.steps import Feed, Key, Steps, pairs_of, parameters_of, parts_of, value_at, ways_to_step

__all__ = ["Asked", "Carried", "begun", "carried", "equal", "once", "places_of"]

Asked: TypeAlias = Mapping[str, int | tuple[int | str, ...]] | None
"""Parameters of the forward, each with the position of the returned value that it is in the next call."""


@dataclass(frozen=True)
class Carried:
    """What a model is called with, and what of its answer goes into the next call."""

    example: Any
    feed: Feed
    asked: bool = False
    """Whether the user says so, and wants to hear if it cannot be."""


def carried(model: nn.Module, example: Any, states: Asked) -> Carried:
    """Pairs of inputs and returned values: as asked for, or those that are alike."""
    # h and c may begin as the same zeros, which a trace would take for one input.
    example = with_tensors(example, [tensor.detach().clone() for tensor in tensors_of(example)])
    if isinstance(example, Steps):
        return _filled(model, example.example, example.feed)
    if states is None:
        result = once(model, example)
        return Carried(example, () if result is None else pairs_of(example, result))
    names = [p.name for p in parameters_of(model)]
    if unknown := [name for name in states if name not in names]:
        raise ExportError(f"the model's forward has no {unknown[0]!r}. It has {', '.join(names)}.")
    count = len(arguments(example)[0])
    keys: list[Key] = [names.index(name) if names.index(name) < count else name for name in states]
    paths = [path if isinstance(path, tuple) else (path,) for path in states.values()]
    return _filled(model, example, tuple(zip(keys, paths, strict=True)))


def _filled(model: nn.Module, example: Any, feed: Feed) -> Carried:
    """The example with the states that it leaves open, as a first call returns them."""
    if not feed:
        return Carried(example, feed, True)
    result = once(model, example)
    if isinstance(result, Tensor):
        feed = tuple((key, () if path == (0,) else path) for key, path in feed)
    try:
        following = Steps(example, feed).following(model, example, result)
    except (KeyError, IndexError) as error:
        raise ExportError(f"the model returns nothing at {error}. Say at which position each state is.") from error
    given = _given(example)
    if all(key in given for key, _ in feed):
        return Carried(example, feed, True)
    names = [p.name for p in parameters_of(model)]
    feed = tuple((names[key] if isinstance(key, int) else key, path) for key, path in feed)
    named = {names[key] if isinstance(key, int) else str(key): value for key, value in given.items()}
    zeros = {key: pytree.tree_map_only(Tensor, torch.zeros_like, following[key]) for key, _ in feed if key not in named}
    if not _same(result, once(model, {**following, **named, **zeros})):
        raise ExportError(
            f"without {' and '.join(map(str, zeros))} the model begins with a state that is not zero, which a file "
            "cannot know. Give the state in the example."
        )
    return Carried(following | named, feed, True)


def begun(model: nn.Module, found: Carried) -> Carried | None:
    """For a model that takes one step: the same with the state that the example leaves open, if there is one."""
    result = None if found.feed or found.asked else once(model, found.example)
    for steps in () if result is None else ways_to_step(model, found.example, result):
        try:
            filled = _filled(model, found.example, steps.feed)
        except ExportError:
            continue
        again = once(model, filled.example) if filled.feed else None
        alike = again is not None and [t.shape for t in leaves(again)] == [t.shape for t in leaves(result)]
        if alike and not _same(result, again):
            return filled
    return None


def places_of(model: nn.Module, found: Carried) -> tuple[tuple[int, int], ...]:
    """For every tensor handed on, its position among all that go in and among all that come out."""
    example, result = copy_example(found.example), once(model, found.example)
    if result is None or not found.feed:
        return ()
    into = {id(tensor): i for i, tensor in enumerate(tensors_of(example))}
    out = {id(tensor): i for i, tensor in enumerate(tensors_of(result))}
    given = _given(example)
    pairs = [pair for key, path in found.feed for pair in _aligned(given[key], value_at(result, path))]
    return tuple((into[id(a)], out[id(b)]) for a, b in pairs)


def _given(example: Any) -> dict[Key, Any]:
    """Inputs by their position or keyword."""
    return dict(parts_of(example)) if isinstance(example, Mapping) or positional(example) else {0: example}


def _aligned(given: Any, returned: Any) -> list[tuple[Tensor, Tensor]]:
    if isinstance(given, Mapping) and isinstance(returned, Mapping) and given.keys() == returned.keys():
        return [pair for key in given for pair in _aligned(given[key], returned[key])]
    a, b = tensors_of(given), tensors_of(returned)
    if [t.shape for t in a] != [t.shape for t in b]:
        shapes = [" and ".join(str(tuple(t.shape)) for t in each) or "no tensor" for each in (a, b)]
        raise ExportError(f"a state goes in as {shapes[0]} and comes out as {shapes[1]}. Name another one in states.")
    return list(zip(a, b, strict=True))


def once(model: nn.Module, example: Any) -> Any:
    """What a call returns, every tensor a new one; None if it fails."""
    try:
        with quiet(model), torch.no_grad():
            return copy_example(call(model, copy_example(example)))
    except Exception:  # the reason is told when it is traced
        return None


def _same(a: Any, b: Any) -> bool:
    first, second = leaves(a), leaves(b)
    return len(first) == len(second) and all(map(equal, first, second))


def equal(a: Tensor, b: Tensor) -> bool:
    """But for the last digits of single precision."""
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
