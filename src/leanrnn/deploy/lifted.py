"""States that a model keeps in its attributes from call to call, as inputs and outputs of its forward."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leanrnn.deploy.carried import Carried, equal, once
from leanrnn.errors import ExportError
from leanrnn.groups.data import Place
from leanrnn.running.attributes import attribute_tensors, get_attribute, set_attribute
from leanrnn.running.call import arguments, call, leaves
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.steps import Key, parameters_of

__all__ = ["lifted"]


@contextlib.contextmanager
def lifted(model: nn.Module, found: Carried) -> Iterator[Carried]:
    """Inside, tensors that the model keeps in attributes from call to call go in and come out as all others do."""
    with quiet(model):
        kept = None if once(model, found.example) is None else _kept(model, found.example)
    if kept is None or not kept.read:
        yield found
        return
    args, kwargs = arguments(found.example)
    words = [p.name for p in parameters_of(model)]
    names = [*(words[i] if i < len(words) else f"input_{i}" for i in range(len(args))), *kwargs]
    states = _names(kept.read, names)
    before, original = dict(vars(model)), model.forward

    def forward(*values: Any) -> tuple[Any, dict[str, Tensor]]:
        own, given = values[: len(names)], values[len(names) :]
        with kept.holding(model, dict(zip(kept.read, given, strict=True))):
            result = original(*own[: len(args)], **dict(zip(names[len(args) :], own[len(args) :], strict=True)))
            return result, {name: get_attribute(model, *place) for name, place in zip(states, kept.read, strict=True)}

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, either) for name in (*names, *states)]
    )
    feed: list[tuple[Key, tuple[Key, ...]]] = [
        (names.index(key) if isinstance(key, str) else key, (0, *path)) for key, path in found.feed
    ]
    feed += [(len(names) + i, (1, name)) for i, name in enumerate(states)]
    model.forward = forward
    try:
        values = (*args, *kwargs.values(), *(kept.values[place].clone() for place in kept.read))
        yield Carried(values, tuple(feed), True)
    finally:
        del model.forward
        vars(model).update({name: before[name] for name in ("forward",) if name in before})


@dataclass(frozen=True)
class _Kept:
    """What a model keeps in its attributes."""

    values: dict[Place, Tensor]
    """After one call."""
    around: dict[tuple[str, str], Any]
    """The attributes that they stand in."""
    read: list[Place]
    """Those that the next call reads."""

    @contextlib.contextmanager
    def holding(self, model: nn.Module, values: Mapping[Place, Tensor]) -> Iterator[None]:
        """Inside, the model keeps these, a buffer as a plain attribute, which tracing leaves alone."""
        owners = {name: model.get_submodule(name) for name, _ in self.around}
        before = [(owner, dict(vars(owner)), dict(owner._buffers)) for owner in owners.values()]
        try:
            for (name, key), container in self.around.items():
                owners[name]._buffers.pop(key, None)
                setattr(owners[name], key, container)
            for (name, path), value in values.items():
                set_attribute(model, name, path, value.clone())  # a forward may write into it
            yield
        finally:
            for owner, attributes, buffers in before:
                for key in [key for name, key in self.around if owners[name] is owner]:
                    vars(owner).pop(key, None)
                    vars(owner).update({key: attributes[key]} if key in attributes else {})
                owner._buffers.clear()
                owner._buffers.update(buffers)


def _held(model: nn.Module) -> dict[Place, Tensor]:
    """All that could be a state, copied."""
    found = dict(attribute_tensors(model))
    for name, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            buffers = module._buffers.items()
            found |= {(name, (key,)): b for key, b in buffers if b is not None and b.is_floating_point() and b.dim()}
    return {place: tensor.detach().clone() for place, tensor in found.items()}


def _kept(model: nn.Module, example: Any) -> _Kept:
    """Look for what a call changes, and what of that changes the next call."""
    before = _held(model)
    first = _called(model, example)
    after = _held(model)
    changed = [place for place, value in after.items() if place not in before or not equal(before[place], value)]
    around = {(name, str(path[0])): getattr(model.get_submodule(name), str(path[0])) for name, path in changed}
    kept = _Kept({place: after[place] for place in changed}, around, [])
    if not changed:
        return kept

    def answer(values: Mapping[Place, Tensor]) -> list[Tensor]:
        with kept.holding(model, values):
            found = _called(model, example)
            return found + [get_attribute(model, *place).clone() for place in changed]

    base = answer(kept.values)
    for place, value in kept.values.items():
        other = answer(kept.values | {place: value + torch.randn_like(value)})
        if not all(map(equal, base, other)):
            kept.read.append(place)
    new = {place: torch.zeros_like(kept.values[place]) for place in kept.read if place not in before}
    if new and not all(map(equal, first, answer(kept.values | new))):
        where = " and ".join(".".join(("self", *filter(None, [name]), *map(str, path))) for name, path in new)
        raise ExportError(
            f"the model keeps a state in {where} that does not begin with zeros, which a file cannot know. Give it to "
            "the forward as an argument, and return it."
        )
    return kept


def _names(places: list[Place], taken: list[str]) -> list[str]:
    """Of inputs, for attributes."""
    found: list[str] = []
    for module, path in places:
        name = "_".join((*filter(None, module.split(".")), *map(str, path)))
        found.append(name if name not in (*taken, *found) else f"{name}_state")
    return found


def _called(model: nn.Module, example: Any) -> list[Tensor]:
    torch.manual_seed(0)
    with torch.no_grad():
        return [tensor.clone() for tensor in leaves(call(model, copy_example(example)))]
