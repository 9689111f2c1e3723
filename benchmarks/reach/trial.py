"""One published model: drop a random half of every group by hand, let leanrnn cut the same half, compare."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from benchmarks.reach.exports import as_file
from benchmarks.reach.page import short
from benchmarks.zoo import Entry
from leanrnn.groups import count_weights

ALLOWED = 1e-4  # float32, relative to the largest number of an output
Slice = tuple[str, int, int]


def attempt(entry: Entry) -> dict[str, Any]:
    """The verdict on one model. The model itself is set to zero in place: the process is thrown away, and not every
    model can be copied."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model, inputs = entry.build()
    enliven(model)
    original = run(model, inputs)
    if not difference(original, run(model, inputs)) < ALLOWED / 100:
        return {"result": "ERROR", "why": "the model gives different results in two runs"}
    units = Units(model, entry.states)
    try:
        groups = leanrnn.discover(model, tuple(inputs))
    except leanrnn.errors.LeanRNNError as error:
        return {"result": "refused", "units": units.total, "removable": 0, "pinned": [["the model", short(str(error))]]}
    slices = {layer.name: [layer.slices(k) for k in range(layer.width)] for layer in groups}
    answer = {
        "units": units.total,
        "removable": units.among(each for parts in slices.values() for part in parts for each in part),
        "groups": groups.widths,
        "pinned": [[name, short(reason)] for name, reason in units.pins(groups.pinned)],
    }
    if not slices:
        return {"result": "refused", **answer}
    keep = halved(model, slices)
    zeroed, before = run(model, inputs), count_weights(model)
    try:
        small = leanrnn.shrink(model, groups, keep=keep)
    except leanrnn.errors.LeanRNNError as error:
        return {"result": "refused", **answer, "why": short(str(error))}
    far = difference(zeroed, run(small, inputs))
    effect = difference(original, zeroed)
    answer |= {"weights": [before, count_weights(small)], "difference": far, "effect": effect}
    if effect == 0:
        return {"result": "ERROR", **answer, "why": "dropping half of all groups changes nothing: nothing was tried"}
    if far > min(ALLOWED, effect / 100):
        return {"result": "WRONG", **answer}
    file = as_file(small, inputs, everything)
    if not file["written"]:
        file["original"] = as_file(model, inputs, everything)["written"]
    return {"result": "exact", **answer, "file": file}


def enliven(model: nn.Module) -> None:
    """Random numbers where a whole parameter starts at zero: what is multiplied with zeros would go unseen."""
    for parameter in model.parameters():
        if parameter.is_floating_point() and not parameter.any():
            parameter.data.normal_(0, 0.1)


def halved(model: nn.Module, slices: dict[str, list[list[Slice]]]) -> dict[str, list[int]]:
    """Set a random half of every group to zero; which components are left."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    generator, keep = torch.Generator().manual_seed(0), {}
    for name, parts in slices.items():
        order = torch.randperm(len(parts), generator=generator).tolist()
        half = max(1, len(parts) // 2)
        keep[name] = sorted(order[:half])
        for tensor, axis, index in (each for k in order[half:] for each in parts[k]):
            if tensor in parameters:
                parameters[tensor].data.select(axis, index).zero_()
    return keep


class Units:
    """The hidden units of a model, found by the matrix in which each has rows or a column of its own."""

    def __init__(self, model: nn.Module, states: Mapping[str, tuple[int, int]]) -> None:
        self.tensors: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
        self.places: dict[int, tuple[int, int]] = {}
        """For every such matrix the axis, and how many of its positions one unit has."""
        for module in model.modules():
            if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                own = dict(module.named_parameters(recurse=False))
                # The rows that read the input: the recurrent matrix may be made anew in every call (weight drop).
                inward = [tensor for name, tensor in own.items() if name.startswith("weight_ih")]
                self.places |= {id(tensor): (0, tensor.shape[0] // module.hidden_size) for tensor in inward}
        for name, tensor in self.tensors.items():
            self.places |= {id(tensor): place for pattern, place in states.items() if fnmatchcase(name, pattern)}

    @property
    def total(self) -> int:
        """Hidden units of the whole model; every layer and direction has its own."""
        tensors = {id(tensor): tensor for tensor in self.tensors.values()}
        return sum(tensors[key].shape[axis] // each for key, (axis, each) in self.places.items())

    def among(self, slices: Iterable[Slice]) -> int:
        """How many of them are among what can leave: one width may hold units of several layers."""
        found: dict[int, set[int]] = {key: set() for key in self.places}
        for name, axis, index in slices:
            key = id(self.tensors.get(name))
            if key in found and self.places[key][0] == axis:
                found[key].add(index)
        return sum(len(positions) // self.places[key][1] for key, positions in found.items())

    def pins(self, pinned: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those that speak of recurrent modules; all, if none does."""
        names = [name.rpartition(".")[0] for name, tensor in self.tensors.items() if id(tensor) in self.places]
        inside = [(pin, why) for pin, why in pinned if any(f"{pin}.".startswith(f"{name}.") for name in names)]
        return inside or pinned


def run(model: nn.Module, inputs: tuple[Any, ...]) -> list[Tensor]:
    """All numbers with a fraction that come out."""
    return [each for each in everything(model, inputs) if each.is_floating_point() or each.is_complex()]


def everything(model: nn.Module, inputs: tuple[Any, ...]) -> list[Tensor]:
    """All tensors that come out of one call, with inputs that are unharmed by the last."""
    torch.manual_seed(0)
    with torch.no_grad():
        found = tensors(model(*unharmed(inputs)))
    return [each.detach().clone() for each in found]


def unharmed(value: Any) -> Any:
    """New containers around the same tensors: some models write into the dict they are given."""
    if type(value) is dict:
        return {key: unharmed(each) for key, each in value.items()}
    return type(value)(map(unharmed, value)) if type(value) in (list, tuple) else value


def tensors(value: Any, depth: int = 0) -> list[Tensor]:
    """All tensors in a result, whatever it is made of."""
    if isinstance(value, Tensor):
        return [value]
    if value is None or isinstance(value, (int, float, str, bytes, type)) or depth > 8:
        return []
    parts: Iterable[Any] = ()
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        parts = (value[key] for key in value.keys())
    elif isinstance(value, (list, tuple)):
        parts = value
    elif dataclasses.is_dataclass(value):
        parts = (getattr(value, field.name, None) for field in dataclasses.fields(value))
    return [each for part in parts for each in tensors(part, depth + 1)]


def difference(wanted: list[Tensor], got: list[Tensor]) -> float:
    """The largest difference, relative to the largest number of each output. A state may have become narrower, and is
    not compared; infinite if nothing is left to compare."""
    pairs = [(a, b) for a, b in zip(wanted, got, strict=False) if a.shape == b.shape]
    rest = [(a, b) for a, b in zip(wanted, got, strict=False) if a.shape != b.shape]
    if len(wanted) != len(got) or not pairs or not all(_narrower(a, b) for a, b in rest):
        return float("inf")
    return max(_relative(a, b) for a, b in pairs)


def _narrower(large: Tensor, small: Tensor) -> bool:
    if large.dim() != small.dim():
        return False
    changed = [(a, b) for a, b in zip(large.shape, small.shape, strict=True) if a != b]
    return len(changed) == 1 and changed[0][1] < changed[0][0]


def _relative(wanted: Tensor, got: Tensor) -> float:
    if not torch.equal(wanted.isnan(), got.isnan()):
        return float("inf")
    if not wanted.numel():
        return 0.0
    size = wanted.abs().nan_to_num(0).max().clamp(min=1e-6)
    return float((wanted - got).abs().nan_to_num(0).max() / size)
