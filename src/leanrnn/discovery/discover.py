"""Find the groups of any recurrent model by running it once and reading the operators it executed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from leanrnn.discovery.classes import Classes, solve
from leanrnn.discovery.hidden import hidden_widths, hiding
from leanrnn.discovery.labels import Labels
from leanrnn.discovery.products import costs_of
from leanrnn.discovery.propagate import Propagation
from leanrnn.discovery.prove import join_layers, note_blind_proof, prove_layers
from leanrnn.discovery.readings import PLAIN, Reading, best_reading
from leanrnn.discovery.recorder import record
from leanrnn.discovery.states import follow, is_state
from leanrnn.discovery.supported import check_supported
from leanrnn.discovery.tape import Tape
from leanrnn.discovery.widths import layers_of, width_name
from leanrnn.errors import DiscoveryError, OperatorError
from leanrnn.groups.data import layer_key
from leanrnn.groups.groups import Groups, Layer, named_tensors
from leanrnn.running.attributes import attribute_tensors
from leanrnn.running.call import call, leaves
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.steps import Steps, ways_to_step
from leanrnn.running.user_line import user_line

__all__ = ["discover"]

Scope = Literal["recurrent", "all"]
Patterns = str | Sequence[str] | None
States = Literal["auto"] | Sequence[int]


def discover(
    model: nn.Module,
    example: Any,
    *,
    scope: Scope = "recurrent",
    include: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    states: Literal["auto"] | Sequence[int] = "auto",
    prove: bool = True,
) -> Groups:
    """Find every width of ``model`` that can shrink, and all the weights that leave with each of its components.

    The model's own forward runs once on ``example``: a tensor, a tuple of positional inputs or a dict of keyword
    inputs, with at least two time steps. The model is left as it was. ::

        groups = leanrnn.discover(model, torch.zeros(35, 2, dtype=torch.long))
        print(groups)

    Arguments:
        scope: ``"recurrent"`` offers hidden widths; ``"all"`` every width (embeddings, MLPs).
        include, exclude: shell-style patterns on the names of layers or of parameters in their groups.
        states: which returned tensors, counted from 0 over all of them, are recurrent states handed on to the next
            call: they shrink, while results keep their width. ``"auto"``: the first is a result, a later one is a state
            if it is a layer's state at the end of the run and not a sequence of outputs.
        prove: cut a random half of every width out of a copy and compare, so that nothing offered can fail later.
    """
    if scope not in ("recurrent", "all"):
        raise DiscoveryError(f"scope is {scope!r}. Use 'recurrent' or 'all'.")
    check_supported(model, example)
    tape = _trace(model, example)
    groups = _discovered(tape, model, example, scope, include, exclude, states, prove)
    if not _recurrent(groups):
        again = partial(_discovered, scope=scope, include=include, exclude=exclude, states=states, prove=prove)
        groups = _in_steps(groups, lambda steps: again(_trace(model, steps), model, steps))
    if not groups.layers and not groups.pinned:
        raise DiscoveryError(
            "this run of the model has no recurrent width, or include and exclude leave none. Give an example with at "
            "least two time steps, look at the patterns, or ask for every width with scope='all'." + hiding(tape)
        )
    return groups


def _in_steps(groups: Groups, discovered: Callable[[Any], Groups]) -> Groups:
    """A single step shows no recurrence: look again at several, in the first way that shows one."""
    model, example = groups.model, groups.example
    for steps in ways_to_step(model, example, _once(model, example)):
        try:
            found = discovered(steps)
        except (DiscoveryError, OperatorError):  # what comes back does not go in there
            continue
        if _recurrent(found) or (found.pinned and not groups.pinned):
            return found
    return groups


def _recurrent(groups: Groups) -> bool:
    return any(layer.recurrent for layer in groups)


def _discovered(
    tape: Tape,
    model: nn.Module,
    example: Any,
    scope: Scope,
    include: Patterns,
    exclude: Patterns,
    states: States,
    prove: bool,
) -> Groups:
    """The groups of one run of the model, or of several steps of it."""

    proven: dict[frozenset[Any], Groups] = {}
    solved: dict[str, tuple[Propagation, Classes]] = {}

    def attempt(how: Reading) -> tuple[Groups, list[Layer]]:
        found = follow(tape, how)
        classes = _solved(found, states)
        wanted = ~classes.pinned & ~classes.derived
        all_layers, narrow = _offerable(layers_of(found, classes, wanted, list(attribute_tensors(model))))
        layers = _chosen([la for la in all_layers if scope == "all" or la.recurrent], include, exclude)
        pinned = _pinned_widths(found, classes) + narrow
        pinned += hidden_widths(
            found,
            classes,
            {name for name, _ in pinned},
            alone=not pinned and not any(la.recurrent for la in all_layers),
        )
        groups = Groups(layers, pinned, model)
        groups.reading = how.words
        solved[how.words] = found, classes
        if prove and groups.layers and _has_numbers(model):
            # Most readings agree, and each proof runs the model many times.
            known = proven.setdefault(frozenset(map(layer_key, layers)), groups)
            if known is not groups:
                return known, all_layers
            prove_layers(model, groups, example, _input_hints(found, classes, groups))
        return groups, all_layers

    groups, layers = attempt(PLAIN)
    reading = groups.reading
    if groups.failed:
        groups, layers = best_reading(groups, layers, attempt)
        pinned = {name for name, _ in groups.pinned}
        failed = [la for la in layers if la.name in pinned]
        spare = [la for la in layers if la.name not in {*pinned, *groups.names}]
        reading = groups.reading
        join_layers(model, groups, example, failed, _chosen(spare, None, exclude))
    if prove and groups.layers and _has_numbers(model) and not any(map(tape.floating, tape.outputs)):
        note_blind_proof(model, groups, example)
    for layer in (la for la in groups if la.given):
        numbers = " and ".join(dict.fromkeys(str(g.input) for g in layer.given))
        groups.notes.append(
            f"{layer.name}: the state handed in (input {numbers}) has to be one that this model returned, or zeros. "
            "Then it is zero where a component is dead"
        )
    groups.costs = costs_of(*solved[reading], groups.layers, model, example.count if isinstance(example, Steps) else 1)
    groups.example = example
    return groups


def _once(model: nn.Module, example: Any) -> Any:
    """What one call returns, for its structure."""
    with quiet(model), torch.no_grad():
        return call(model, copy_example(example))


def _trace(model: nn.Module, example: Any) -> Tape:
    """Run the model; its buffers, attributes and mode and the random state stay as they are."""
    given = copy_example(example)
    try:
        with quiet(model):
            held = list(attribute_tensors(model).values())
            return record(lambda: call(model, given), named_tensors(model), leaves(given), leaves, held)[0]
    except OperatorError:
        raise
    except Exception as error:
        raise DiscoveryError(
            f"the model's forward raised {type(error).__name__} at {user_line(error)}: {error}. "
            "Call model(...) with this example first; discover needs a forward that runs."
        ) from error


def _solved(found: Propagation, states: Literal["auto"] | Sequence[int]) -> Classes:
    """The classes, once it is known which outputs are results and which are states."""
    pins, stacked = _result_pins(found, states, solve(found, ()))
    classes = solve(found, pins)
    # A state whose layers all shrink may come back as one tensor a layer; with a layer that cannot shrink in it, it
    # would always do so, and callers expect one tensor.
    partly = [labels for labels in stacked if len(set(classes.pinned[classes.of[labels]].tolist())) > 1]
    if not partly:
        return classes
    return solve(found, [*pins, *((labels, "is returned in one tensor with a width that stays") for labels in partly)])


def _result_pins(
    found: Propagation, states: Literal["auto"] | Sequence[int], classes: Classes
) -> tuple[list[tuple[Labels, str]], list[Labels]]:
    """What reaches the result keeps its width; also the labels of returned states of several layers, stacked."""
    pins, stacked = [], []
    for i, value in enumerate(found.tape.outputs):
        if value not in found.values:
            continue
        factors = [f for f in found.values[value].factors if found.ties.loose(f.labels)]
        labels = [f.labels[f.labels >= 0] for f in factors]
        if states == "auto":
            state = (
                i > 0
                and found.tape.floating(value)
                and all(classes.recurrent[classes.of[lab]].all() for lab in labels)
                and is_state(found, value, classes.of)
            )
        else:
            state = i in states
        if state:
            stacked += [lab for lab, f in zip(labels, factors, strict=True) if f.main != set(f.axes)]
        else:
            reason = f"reaches output {i} of the model (states=[{i}], if callers take it narrower)"
            pins += [(lab, reason) for lab in labels]
    return pins, stacked


def _has_numbers(model: nn.Module) -> bool:
    """A model without numbers (on the meta device, or fake) has nothing to compare."""
    return not any(t.device.type == "meta" or isinstance(t, FakeTensor) for t in named_tensors(model).values())


def _input_hints(found: Propagation, classes: Classes, groups: Groups) -> dict[str, str]:
    """Layers whose components are also indices of an input the caller hands in, with what to say if that holds them."""
    starts = {(o.name, o.axis): o.start for o in found.owners if o.kind != "input"}
    hints = {}
    for owner in (o for o in found.owners if o.kind == "input"):
        reached = set(classes.of[owner.start : owner.start + owner.size].tolist())
        for layer in groups:
            strip = layer.strips[0]
            if int(classes.of[starts[strip.tensor, strip.axis] + int(strip.positions[0])]) in reached:
                hints[layer.name] = f"is as wide as input {owner.name}, which the caller hands in at full width"
    return hints


def _pinned_widths(found: Propagation, classes: Classes) -> list[tuple[str, str]]:
    """Every recurrent width that cannot shrink, named like a layer, with the reason."""
    pinned: dict[str, str] = {}
    for owner in found.owners:
        if owner.kind != "parameter":
            continue
        labels = np.arange(owner.start, owner.start + owner.size)
        of = classes.of[labels]
        stuck = classes.recurrent[of] & (classes.pinned[of] | classes.derived[of])
        if stuck.any() and _loops(found, classes, owner.name, set(of[stuck].tolist())):
            name = width_name(owner.name)
            reason = classes.reason(labels[stuck])
            pinned.setdefault(name, reason)
    return list(pinned.items())


def _loops(found: Propagation, classes: Classes, name: str, stuck: set[int]) -> bool:
    """Whether the parameter both makes and reads one of the classes, or is a vector along it."""
    axes = [
        stuck & set(classes.of[np.arange(o.start, o.start + o.size)].tolist()) for o in found.owners if o.name == name
    ]
    return len(axes) == 1 or any(a & b for i, a in enumerate(axes) for b in axes[i + 1 :])


def _offerable(layers: Iterable[Layer]) -> tuple[list[Layer], list[tuple[str, str]]]:
    """Layers of a single component cannot shrink; each recurrent width that has a part in one is named."""
    wide: list[Layer] = []
    narrow: dict[str, str] = {}
    for layer in layers:
        if all(strip.reader for strip in layer.strips):
            if layer.recurrent:
                narrow[layer.name] = "is made of data: weights read it and none makes it"
        elif layer.width > 1:
            wide.append(layer)
        elif layer.recurrent:
            axes = [strip.tensor for strip in layer.strips if strip.role == "weight"]
            loops = [width_name(tensor) for tensor in axes if axes.count(tensor) > 1]
            narrow.update(dict.fromkeys([layer.name, *loops], "has a single component"))
    for name in [layer.name for layer in wide]:
        narrow.pop(name, None)
    return wide, list(narrow.items())


def _chosen(
    layers: Iterable[Layer], include: str | Sequence[str] | None, exclude: str | Sequence[str] | None
) -> list[Layer]:
    def matches(layer: Layer, patterns: str | Sequence[str]) -> bool:
        names = [layer.name, *dict.fromkeys(s.tensor for s in layer.strips)]
        return any(fnmatchcase(n, p) for n in names for p in ([patterns] if isinstance(patterns, str) else patterns))

    kept = [la for la in layers if include is None or matches(la, include)]
    return [la for la in kept if exclude is None or not matches(la, exclude)]
