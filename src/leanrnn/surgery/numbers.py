"""Numbers a user's modules remember: ``self.hidden_size`` in a forward that builds its own states or views.

Tensors tell their new width themselves; a number in a Python attribute does not. If the cut model fails, numbers that
equal an old width, or a multiple, are set to the new one, and what makes the model right again is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from typing import Any

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from leanrnn.groups.data import Masks, Place
from leanrnn.groups.groups import Groups
from leanrnn.layers import Recurrent
from leanrnn.running.attributes import get_attribute, leaves_of, set_attribute
from leanrnn.surgery.cut import new_length
from leanrnn.surgery.plan import Plan, Remembered, plan_of, set_plan
from leanrnn.surgery.reads import places_read

__all__ = ["settle"]

Source = tuple[tuple[str, ...], int | None]
"""What a number is the width of: layers side by side, or a tensor and its axis; nothing for the width before any
cut."""
# No rule can tell what a number is for: 16 may be this width, another layer's, or the number of heads. So nothing is
# concluded from a number. It is set, the model runs, and the proof says whether that was right.
Choice = dict[Place, Source]
MULTIPLES = 8
"""How many times a layer's width a number may be: four gates of two directions."""
Check = Callable[[nn.Module], object]


def settle(model: nn.Module, groups: Groups, masks: Masks, check: Check) -> tuple[Remembered, ...]:
    """Make a model that was just cut pass ``check``, which raises if it does not, by setting remembered numbers.

    Returns the numbers that had to be set, for ``groups.remembered``; if nothing helps, the first error is raised::

        cut_(copy, groups, masks)
        groups.remembered = (*groups.remembered, *settle(copy, groups, masks, check))
    """
    try:
        check(model)
        return ()
    except Exception as first:
        choice = _search(model, _options(model, groups, masks), masks, check)
        if choice is None:
            raise first
    numbers = _values(model, choice, masks)
    _set(model, numbers)
    set_plan(model, (plan_of(model) or Plan()).with_numbers(numbers))
    return tuple(Remembered(module, path, *source) for (module, path), source in choice.items())


def _search(model: nn.Module, options: Mapping[Place, list[Source]], masks: Masks, check: Check) -> Choice | None:
    """Of the numbers read so far, add the one with which the run gets farthest, until it passes."""
    # One number at a time, the one that helps most first: all combinations of ten numbers would be a thousand runs. A
    # wrong number seldom helps, since the forward then fails in the same place or earlier; the proof has the last word.
    choice: Choice = {}
    reached = _progress(model, choice, masks, check)
    while True:
        left = _read(model, options.keys() - choice.keys(), choice, masks, check)
        trials = [{**choice, key: source} for key in left for source in options[key]]
        if not trials:
            return None
        scores = [_progress(model, trial, masks, check) for trial in trials]
        # Heads times their size is halved by either; the number that is a width is likelier than a multiple of one.
        best = max(range(len(trials)), key=lambda i: (scores[i], -_parts(trials[i])))
        if scores[best] <= reached:
            return None
        choice, reached = trials[best], scores[best]
        if reached == math.inf:
            return choice


def _parts(choice: Choice) -> int:
    """Of how many widths the numbers are made."""
    return sum(len(of) for of, _ in choice.values())


def _read(model: nn.Module, places: Collection[Place], choice: Choice, masks: Masks, check: Check) -> list[Place]:
    before = {key: get_attribute(model, *key) for key in choice}
    try:
        _set(model, _values(model, choice, masks))
        # Numbers behind the failure are not read yet. Whatever the forward has not asked for cannot have stopped it.
        return places_read(model, places, lambda: check(model)) if places else []
    finally:
        _set(model, before)


def _progress(model: nn.Module, choice: Choice, masks: Masks, check: Check) -> float:
    """Operators executed before the check failed, infinite if it passed; the model's numbers are set back."""
    before = {key: get_attribute(model, *key) for key in choice}
    counter = _Counter()  # type: ignore[no-untyped-call]
    try:
        _set(model, _values(model, choice, masks))
        with counter:
            check(model)
        return math.inf
    except Exception:  # any failure of the user's forward only says that these numbers are not the ones
        return counter.count
    finally:
        _set(model, before)


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += 1
        return result


def _values(model: nn.Module, choice: Choice, masks: Masks) -> dict[Place, int]:
    return {
        key: new_length(model, of, axis, masks) if of else _former(model, key[0]) for key, (of, axis) in choice.items()
    }


def _set(model: nn.Module, numbers: Mapping[Place, int]) -> None:
    for (module, path), value in numbers.items():
        set_attribute(model, module, path, value)


def _options(model: nn.Module, groups: Groups, masks: Masks) -> dict[Place, list[Source]]:
    """Numbers that equal an old width or length, and the layers and tensors it could be the width of."""
    found: dict[Place, list[Source]] = {}
    lengths = {(s.tensor, s.axis): s.shape[s.axis] for la in groups for s in la.strips}
    cut = {key: lengths[key] for key in groups.kept_positions(masks)}
    for name, module in model.named_modules():
        if isinstance(module, Recurrent) and module.former and not module.equal:
            # Code that makes a state of rnn.hidden_size wants one number; the former one is accepted for every layer.
            found[name, ("hidden_size",)] = [((), None)]
        # The cut has set these modules' numbers already.
        if type(module).__module__.startswith(("torch.", "leanrnn.")):
            continue
        sources = _sources(name, groups, masks, cut)
        for path, value in leaves_of(module):
            # True is an int as well, and equals a width of one.
            if type(value) is not int:
                continue
            # Two explanations that give the same new number are one trial.
            fitting: dict[int, Source] = {}
            for source in sources.get(value, ()):
                fitting.setdefault(new_length(model, *source, masks), source)
            if fitting:
                found[name, path] = list(fitting.values())
    return found


def _sources(module: str, groups: Groups, masks: Masks, cut: Mapping[tuple[str, int], int]) -> dict[int, list[Source]]:
    """What was cut inside a module, by its old length: layers and their multiples, two layers, axes of tensors."""
    prefix = f"{module}." if module else ""
    inside = {la.name: sum(s.tensor.startswith(prefix) for s in la.strips) for la in groups}
    layers = [la for la in groups if inside[la.name]]
    # Several layers may be left with one width: the number is then that of the layer most at home in the module.
    layers.sort(key=lambda la: -inside[la.name])
    found: dict[int, list[Source]] = {}
    sums = [[la] * times for la in layers for times in range(1, MULTIPLES + 1)] + [*map(list, combinations(layers, 2))]
    for parts in sums:
        if not all(masks[la.name].all() for la in parts):
            found.setdefault(sum(la.width for la in parts), []).append((tuple(la.name for la in parts), None))
    for (tensor, axis), length in cut.items():
        if tensor.startswith(prefix):
            found.setdefault(length, []).append(((tensor,), axis))
    return found


def _former(model: nn.Module, name: str) -> int:
    """The width every layer of a recurrent module had at first."""
    module = model.get_submodule(name)
    former = module.former[-1] if isinstance(module, Recurrent) else ()
    return max((width for slot in former for width in slot), default=0)
