"""A model that takes one step at a call, called several times: what it returns as its state goes into the next call.

One step shows nothing of a recurrence: a first state of zeros reads no weight that could be told from another. Three
steps do, whether the state is returned and handed in again, or kept by the model itself.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from leanrnn.running.call import call, leaves, positional

__all__ = ["Feed", "Key", "Steps", "pairs_of", "parameters_of", "parts_of", "value_at", "ways_to_step"]

COUNT = 3
"""Calls: the first has a constant state, the second reads what the first made, the third repeats the second."""
Key = str | int
Feed = tuple[tuple[Key, tuple[Key, ...]], ...]
"""Pairs of an input (its position or keyword) and the path to a returned value."""


@dataclass(frozen=True)
class Steps:
    """An example of one step, and which returned values are inputs of the next call. Models are called on it as on any
    other example. ::

        call(model, Steps(x, (("state", (1,)),)))
    """

    example: Any
    feed: Feed = ()
    """What goes from one call into the next; nothing where the model keeps its state itself."""
    count: int = COUNT

    def called(self, model: nn.Module) -> Any:
        """What the last of all calls returns."""
        inputs = self.example
        for _ in range(self.count - 1):
            inputs = self.following(model, inputs, call(model, inputs))
        return call(model, inputs)

    def following(self, model: nn.Module, inputs: Any, result: Any) -> Any:
        """The inputs of the next call, by what the last one returned."""
        named: dict[Key, Any] = (
            dict(parts_of(inputs)) if isinstance(inputs, Mapping) or positional(inputs) else {0: inputs}
        )
        for key, path in self.feed:
            named[key] = value_at(result, path)
        if isinstance(inputs, Mapping):
            return named
        if any(isinstance(key, str) for key in named):
            names = [p.name for p in parameters_of(model)]
            return {names[key] if isinstance(key, int) else key: value for key, value in named.items()}
        return tuple(named[i] for i in range(len(named)))


pytree.register_pytree_node(
    Steps,
    lambda steps: ([steps.example], (steps.feed, steps.count)),
    lambda children, context: Steps(next(iter(children)), *context),
    serialized_type_name="leanrnn.running.steps.Steps",
)


def ways_to_step(model: nn.Module, example: Any, result: Any) -> Iterator[Steps]:
    """Every way in which one call's ``result`` could go into the next call, the likeliest first."""
    if pairs := pairs_of(example, result):
        yield Steps(example, pairs)
    returned: list[tuple[Key, ...]] = [(key,) for key, value in parts_of(result)[1:] if leaves(value)]
    for name in _left_open(model, example):
        yield from (Steps(example, ((name, path),)) for path in returned or [()])
    yield Steps(example)


def parameters_of(model: nn.Module) -> list[inspect.Parameter]:
    """What the forward can be given by name."""
    found = inspect.signature(model.forward).parameters.values()
    return [p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _left_open(model: nn.Module, example: Any) -> list[str]:
    """Parameters of the forward that the example leaves at their default, None."""
    parameters = parameters_of(model)
    if isinstance(example, Mapping):
        parameters = [p for p in parameters if p.name not in example]
    else:
        parameters = parameters[len(example) if positional(example) else 1 :]
    return [p.name for p in parameters if p.default is None]


def pairs_of(example: Any, result: Any) -> Feed:
    """Inputs but the first, each with a returned value that has its shapes: not the first, which is a result, unless
    all that comes back has a place among the inputs."""
    given = parts_of(example)[1:] if isinstance(example, Mapping) or positional(example) else []
    parts = parts_of(result)
    pairs = _matched(given, [((key,), value) for key, value in parts[1:]])
    whole = _matched(given, [((), result)] if len(parts) > 1 else [])
    return (
        whole if len(whole) > len(pairs) and all(path == () or len(whole) == len(parts) for _, path in whole) else pairs
    )


def _matched(given: list[tuple[Key, Any]], places: list[tuple[tuple[Key, ...], Any]]) -> Feed:
    # A pair (h, c) may come back as one value, and go in as two.
    places = places + [((*path, key), inner) for path, value in places for key, inner in parts_of(value)]
    pairs: list[tuple[Key, tuple[Key, ...]]] = []
    for name, value in given:
        same = [place for place in places if _alike(value, place[1])]
        if same:
            pairs.append((name, same[0][0]))
            places = [(path, item) for path, item in places if path[: len(same[0][0])] != same[0][0]]
    return tuple(pairs)


def _alike(given: Any, returned: Any) -> bool:
    """Whether all tensors of two values have the same shapes and types, as states do and masks do not."""
    a, b = leaves(given), leaves(returned)
    if not a or any(not t.is_floating_point() or t.dim() < 2 for t in a):
        return False
    return [(t.shape, t.dtype) for t in a] == [(t.shape, t.dtype) for t in b]


def parts_of(value: Any) -> list[tuple[Key, Any]]:
    """What stands directly in a value, with its key, position or attribute."""
    if isinstance(value, Tensor):
        return []
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (tuple, list)) else []


def value_at(value: Any, path: tuple[Key, ...]) -> Any:
    """What stands in a value at the end of a path of keys, positions and attributes."""
    for part in path:
        value = dict(parts_of(value))[part]
    return value
