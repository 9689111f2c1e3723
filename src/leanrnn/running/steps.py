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

__all__ = ["Steps", "ways_to_step"]

COUNT = 3
"""Calls: the first has a constant state, the second reads what the first made, the third repeats the second."""
Key = str | int


@dataclass(frozen=True)
class Steps:
    """An example of one step, and which returned values are inputs of the next call. Models are called on it as on any
    other example. ::

        call(model, Steps(x, (("state", (1,)),)))
    """

    example: Any
    feed: tuple[tuple[Key, tuple[Key, ...]], ...] = ()
    """Pairs of an input (its position or keyword) and the path to a returned value; none where the model keeps its
    state itself."""
    count: int = COUNT

    def called(self, model: nn.Module) -> Any:
        """What the last of all calls returns."""
        inputs = self.example
        for _ in range(self.count - 1):
            inputs = self._next(model, inputs, call(model, inputs))
        return call(model, inputs)

    def _next(self, model: nn.Module, inputs: Any, result: Any) -> Any:
        named: dict[Key, Any] = (
            dict(_parts(inputs)) if isinstance(inputs, Mapping) or positional(inputs) else {0: inputs}
        )
        for key, path in self.feed:
            value = result
            for part in path:
                value = dict(_parts(value))[part]
            named[key] = value
        if isinstance(inputs, Mapping):
            return named
        if any(isinstance(key, str) for key in named):
            names = [p.name for p in _parameters(model)]
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
    if pairs := _pairs(example, result):
        yield Steps(example, pairs)
    returned: list[tuple[Key, ...]] = [(key,) for key, value in _parts(result)[1:] if leaves(value)]
    for name in _left_open(model, example):
        yield from (Steps(example, ((name, path),)) for path in returned or [()])
    yield Steps(example)


def _parameters(model: nn.Module) -> list[inspect.Parameter]:
    found = inspect.signature(model.forward).parameters.values()
    return [p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _left_open(model: nn.Module, example: Any) -> list[str]:
    """Parameters of the forward that the example leaves at their default, None."""
    parameters = _parameters(model)
    if isinstance(example, Mapping):
        parameters = [p for p in parameters if p.name not in example]
    else:
        parameters = parameters[len(example) if positional(example) else 1 :]
    return [p.name for p in parameters if p.default is None]


def _pairs(example: Any, result: Any) -> tuple[tuple[Key, tuple[Key, ...]], ...]:
    """Inputs but the first, each with a returned value but the first that has its shapes."""
    given = _parts(example)[1:] if isinstance(example, Mapping) or positional(example) else []
    places: list[tuple[tuple[Key, ...], Any]] = [((key,), value) for key, value in _parts(result)[1:]]
    # A pair (h, c) may come back as one value, and go in as two.
    places += [((*path, key), inner) for path, value in places for key, inner in _parts(value)]
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


def _parts(value: Any) -> list[tuple[Key, Any]]:
    """What stands directly in a value, with its key, position or attribute."""
    if isinstance(value, Tensor):
        return []
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (tuple, list)) else []
