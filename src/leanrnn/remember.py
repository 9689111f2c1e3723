"""Numbers a user's modules remember: ``self.hidden_size`` in a forward that builds its own states or views.

Tensors tell their new width themselves; a number in a Python attribute does not. If the cut model fails, numbers that
equal an old width are set to the new one, and what makes the model right again is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from leanrnn.groups import Groups
from leanrnn.layers import Recurrent
from leanrnn.plan import Plan, Remembered, get_number, plan_of, set_number, set_plan
from leanrnn.surgery import Masks

__all__ = ["settle"]

ATTEMPTS = 64
Choice = dict[tuple[str, tuple[str | int, ...]], str]
"""For a number (module, path), the layer whose width it is to be."""


def settle(
    model: nn.Module, groups: Groups, masks: Masks, check: Callable[[nn.Module], object]
) -> tuple[Remembered, ...]:
    """Make a model that was just cut pass ``check``, which raises if it does not, by setting remembered numbers.

    Returns the numbers that had to be set, for ``groups.remembered``; if nothing helps, the first error is raised::

        cut_(copy, groups, masks)
        groups.remembered = (*groups.remembered, *settle(copy, groups, masks, check))
    """
    try:
        check(model)
        return ()
    except Exception as first:
        for choice in itertools.islice(_choices(_options(model, groups, masks)), ATTEMPTS):
            if _works(model, choice, masks, check):
                return tuple(Remembered(module, path, layer) for (module, path), layer in choice.items())
        raise first


def _works(model: nn.Module, choice: Choice, masks: Masks, check: Callable[[nn.Module], object]) -> bool:
    """Whether the model passes with these numbers; if not, they are set back."""
    before = {key: get_number(model, *key) for key in choice}
    after = {key: int(masks[layer].sum()) if layer else _former(model, key[0]) for key, layer in choice.items()}
    _set(model, after)
    try:
        check(model)
    except Exception:  # any failure of the user's forward only says that these numbers are not the ones
        _set(model, before)
        return False
    set_plan(model, (plan_of(model) or Plan()).with_numbers(after))
    return True


def _set(model: nn.Module, numbers: Mapping[tuple[str, tuple[str | int, ...]], int]) -> None:
    for (module, path), value in numbers.items():
        set_number(model, module, path, value)


def _options(model: nn.Module, groups: Groups, masks: Masks) -> dict[tuple[str, tuple[str | int, ...]], list[str]]:
    """Numbers that equal the old width of a cut layer, and the layers it could be the width of."""
    found: dict[tuple[str, tuple[str | int, ...]], list[str]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Recurrent) and module.former and not module.equal:
            # Code that makes a state of rnn.hidden_size wants one number; the former one is accepted for every layer.
            found[name, ("hidden_size",)] = [""]
        if type(module).__module__.startswith(("torch.", "leanrnn.")):
            continue
        prefix = f"{name}." if name else ""
        near = [la for la in groups if any(s.tensor.startswith(prefix) for s in la.strips)]
        cut = [la for la in near if not masks[la.name].all()]
        for path, value in _numbers(module):
            layers = [la.name for la in cut if len(masks[la.name]) == value]
            if layers:
                found[name, path] = layers
    return found


def _numbers(module: nn.Module) -> Iterator[tuple[tuple[str | int, ...], int]]:
    for name, value in vars(module).items():
        if not name.startswith("_") and name != "training":
            yield from (((name, *path), number) for path, number in _inside(value, 2))


def _inside(value: Any, depth: int) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Numbers in lists, mappings and plain objects such as a configuration, with the way to them."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield (), value
        return
    if not depth or isinstance(value, Tensor | nn.Module | str | type) or callable(value):
        return
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, list | tuple):
        items = list(enumerate(value))
    elif isinstance(value, dict):
        items = [(key, item) for key, item in value.items() if isinstance(key, str | int)]
    elif hasattr(value, "__dict__"):
        items = list(vars(value).items())
    for key, item in items:
        yield from (((key, *path), number) for path, number in _inside(item, depth - 1))


def _choices(options: Mapping[tuple[str, tuple[str | int, ...]], list[str]]) -> Iterator[Choice]:
    """All numbers at once, then layer by layer, then one by one, then every combination."""
    if not options:
        return
    yield {key: layers[0] for key, layers in options.items()}
    for layer in dict.fromkeys(layer for layers in options.values() for layer in layers):
        yield {key: layer for key, layers in options.items() if layer in layers}
    for key, layers in options.items():
        yield from ({key: layer} for layer in layers)
    for picked in itertools.product(*([None, *layers] for layers in options.values())):
        yield {key: layer for key, layer in zip(options, picked, strict=True) if layer is not None}


def _former(model: nn.Module, name: str) -> int:
    """The width every layer of a recurrent module had at first."""
    module = model.get_submodule(name)
    former = module.former[-1] if isinstance(module, Recurrent) else ()
    return max((width for slot in former for width in slot), default=0)
