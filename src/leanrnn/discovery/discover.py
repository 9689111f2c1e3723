"""Find the groups of any recurrent model by calling it once and reading the operators it executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from leanrnn.discovery.classes import Classes
from leanrnn.discovery.hidden import hidden_widths, hiding
from leanrnn.discovery.joins import join_layers, lines_of
from leanrnn.discovery.offered import Patterns, chosen, input_hints, offerable, one_step_layers, pinned_widths
from leanrnn.discovery.products import costs_of
from leanrnn.discovery.propagate import Propagation
from leanrnn.discovery.prove import note_blind_proof, prove_layers, try_cut
from leanrnn.discovery.readings import PLAIN, Reading, best_reading
from leanrnn.discovery.recorder import record
from leanrnn.discovery.states import States, classes_of, propagate_states
from leanrnn.discovery.supported import check_supported
from leanrnn.discovery.tape import Tape
from leanrnn.discovery.widths import layers_of
from leanrnn.errors import DiscoveryError, OperatorError
from leanrnn.groups.data import layer_key
from leanrnn.groups.groups import Groups, Layer, named_tensors
from leanrnn.groups.numbers import without_numbers
from leanrnn.groups.wrapped import bare
from leanrnn.running.attributes import attribute_tensors
from leanrnn.running.call import call, leaves
from leanrnn.running.copies import copy_example
from leanrnn.running.quiet import quiet
from leanrnn.running.refused import refused
from leanrnn.running.steps import Steps, ways_to_step

__all__ = ["discover"]

Scope = Literal["recurrent", "all"]


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
        include: shell-style patterns on the names of layers or of parameters in their groups; only these are offered.
        exclude: the same, for what is not offered.
        states: which returned tensors, counted from 0 over all of them, are recurrent states handed on to the next
            call: they shrink, while results keep their width. ``"auto"``: the first is a result, a later one is a state
            if it is a layer's state at the end of the call and not a sequence of outputs.
        prove: cut a random half of every width out of a copy and compare, so that nothing offered can fail later.
    """
    if scope not in ("recurrent", "all"):
        raise DiscoveryError(f"scope is {scope!r}. Use 'recurrent' or 'all'.")
    check_supported(model, example)
    model = bare(model)
    tape = _trace(model, example)
    groups = _discovered(tape, model, example, scope, include, exclude, states, prove)
    if not _recurrent(groups):
        again = partial(_discovered, scope=scope, include=include, exclude=exclude, states=states, prove=prove)
        groups = _in_steps(groups, lambda steps: again(_trace(model, steps), model, steps))
    if not groups.layers and not groups.pinned:
        raise DiscoveryError(
            "this call of the model has no recurrent width, or include and exclude leave none. Give an example with at "
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
    """Whether the example shows a recurrence, by more than a single step of a recurrent layer."""
    return any(layer.recurrent and layer.name not in groups.one_step for layer in groups)


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
    """The groups of one call of the model, or of several steps of it."""

    proven: dict[frozenset[Any], Groups] = {}
    solved: dict[str, tuple[Propagation, Classes]] = {}

    def attempt(how: Reading) -> tuple[Groups, list[Layer]]:
        found = propagate_states(tape, how)
        classes = classes_of(found, states)
        wanted = ~classes.pinned & ~classes.derived
        all_layers, narrow = offerable(layers_of(found, classes, wanted, list(attribute_tensors(model))))
        layers = chosen([la for la in all_layers if scope == "all" or la.recurrent], include, exclude)
        pinned = pinned_widths(found, classes) + narrow
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
            prove_layers(model, groups, example, input_hints(found, classes, groups))
        return groups, all_layers

    groups, layers = attempt(PLAIN)
    reading = groups.reading
    if groups.failed or (groups.pinned and solved[reading][0].ties.split):
        groups, layers = best_reading(groups, layers, attempt)
        pinned = {name for name, _ in groups.pinned}
        failed = [la for la in layers if la.name in pinned]
        spare = [la for la in layers if la.name not in {*pinned, *groups.names}]
        reading = groups.reading
        trial = partial(try_cut, model, groups, example=example)
        lines = lines_of(*solved[reading], layers)
        join_layers(groups, failed, chosen(spare, None, exclude), lines, lambda layers: trial(layers) is None)
    if prove and groups.layers and _has_numbers(model) and not any(map(tape.floating, tape.outputs)):
        note_blind_proof(model, groups, example)
    for layer in (la for la in groups if la.given):
        numbers = " and ".join(dict.fromkeys(str(g.input) for g in layer.given))
        groups.notes.append(
            f"{layer.name}: the state handed in (input {numbers}) has to be one that this model returned, or zeros. "
            "Then it is zero where a component is dead"
        )
    groups.one_step = one_step_layers(*solved[reading], groups.layers)
    if groups.one_step:
        groups.notes.append(
            f"{', '.join(groups.one_step)}: a single step in this example, so the proof does not compare the weights "
            "that read the state. Give a longer example, and it does"
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
        raise DiscoveryError(refused(model, example, error)) from error


def _has_numbers(model: nn.Module) -> bool:
    """A model without numbers (on the meta device, or fake) has nothing to compare."""
    return not without_numbers(model)
