"""Run a model without leaving a trace, and say how far two runs are apart."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from leanrnn.attributes import attribute_tensors
from leanrnn.groups import Layer, index_tensor, named_tensors
from leanrnn.layers import States
from leanrnn.surgery.copying import copy_example, copy_model, user_line

__all__ = [
    "TOLERANCE",
    "call",
    "copy_example",
    "copy_model",
    "difference",
    "leaves",
    "quiet",
    "run",
    "tolerance",
    "user_line",
    "zero_",
]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-2}
"""How far a cut model may be from the zeroed one, relative to the largest number of an output."""


@torch.no_grad()
def zero_(model: nn.Module, layers: Iterable[Layer], masks: Mapping[str, NDArray[np.bool_]]) -> None:
    """Zero the weights and biases of all components outside ``masks``, in place; carried parameters become one."""
    tensors = named_tensors(model)
    for layer in layers:
        gone = ~masks[layer.name]
        for strip in layer.strips:
            positions = strip.positions[gone[strip.components]]
            tensor = tensors[strip.tensor]
            if len(positions) and isinstance(tensor, nn.Parameter):
                # What is carried may be divided by; nothing else depends on it where the component is zero.
                value = 1 if strip.role == "carried" else 0
                tensor.index_fill_(strip.axis, index_tensor(positions, tensor.device), value)


def run(model: nn.Module, example: Any) -> list[Tensor]:
    """The numbers ``model`` gives for ``example``, with all randomness fixed; the model is left as it was.

    ``example`` is a tensor, a tuple of positional inputs or a mapping of keyword inputs::

        expected = run(zeroed, example)
        assert difference(expected, run(small, example)) < 1e-12
    """
    with quiet(model), torch.no_grad(), Constant():  # type: ignore[no-untyped-call]
        # States of unequal widths become one leaf, of one axis less than the stacked state, so never taken for it.
        found = leaves(call(model, copy_example(example)), lambda states: [torch.cat(tuple(states), dim=-1)])
    return [leaf for leaf in found if leaf.is_floating_point() or leaf.is_complex()]


def call(model: nn.Module, example: Any) -> Any:
    """``model`` on ``example``: a tensor, a tuple of positional inputs or a mapping of keyword inputs."""
    if isinstance(example, Mapping):
        return model(**example)
    return model(*example) if _positional(example) else model(example)


def leaves(value: Any, states: Callable[[States], list[Tensor]] = list) -> list[Tensor]:
    """All tensors inside a value, in order; ``states`` takes states of unequal widths apart."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, States):
        return states(value)
    if isinstance(value, PackedSequence):
        return [value.data]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        value = list(value.values())
    elif not isinstance(value, list | tuple | set):
        parts = pytree.tree_leaves(value)
        value = [] if len(parts) == 1 and parts[0] is value else parts
    return [leaf for item in value for leaf in leaves(item, states)]


def difference(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> float:
    """Largest difference between two runs, relative to the largest number of each leaf.

    Leaves of unequal shape are recurrent states that got narrower and are left out. Infinite if the runs have unequal
    numbers of leaves, none of equal shape, or differ in where they are not finite.
    """
    pairs = [(a, b) for a, b in zip(expected, actual, strict=False) if a.shape == b.shape]
    if len(expected) != len(actual) or not pairs:
        return float("inf")
    return max(_apart(a, b) for a, b in pairs)


def tolerance(model: nn.Module, *runs: Sequence[Tensor]) -> float:
    """The tolerance for the least exact type among the parameters of ``model`` and the results."""
    tensors = [*model.parameters(), *(leaf for found in runs for leaf in found)]
    return max((TOLERANCE.get(t.dtype, 0.0) for t in tensors), default=0.0) or TOLERANCE[torch.float32]


@contextlib.contextmanager
def quiet(model: nn.Module) -> Iterator[None]:
    """Afterwards all tensors, attributes and modes of ``model`` and the random state are what they were before."""
    devices = {p.device for p in model.parameters() if p.device.type in ("cuda", "xpu")}
    kind = next(iter(devices)).type if devices else "cuda"
    saved = [(m, dict(vars(m)), dict(m._parameters), dict(m._buffers)) for m in model.modules()]
    written = [b for *_, buffers in saved for b in buffers.values() if b is not None]
    written += attribute_tensors(model).values()
    values = {id(t): (t, t.detach().clone()) for t in written}
    lists = [(value, copy.copy(value)) for _, attributes, *_ in saved for value in attributes.values() if _fills(value)]
    # cuDNN draws the dropout between layers inside one kernel, where no one can hold it still.
    fused = torch.backends.cudnn.flags(enabled=False) if devices and model.training else contextlib.nullcontext()
    try:
        indices = [d.index or 0 for d in devices if d.type == kind]
        with torch.random.fork_rng(indices, device_type=kind), fused:
            torch.manual_seed(0)
            yield
    finally:
        for module, attributes, parameters, buffers in saved:
            for name in vars(module).keys() - attributes.keys():
                del vars(module)[name]
            vars(module).update(attributes)
            for table, before in ((module._parameters, parameters), (module._buffers, buffers)):
                table.clear()
                table.update(before)  # type: ignore[arg-type]  # of parameters or of buffers, as it was
        for container, before in lists:
            container.clear()
            container.extend(before) if isinstance(container, list) else container.update(before)
        with torch.no_grad():
            for tensor, value in values.values():
                tensor.copy_(value)


def _fills(value: Any) -> bool:
    """Whether an attribute is a list or mapping that a forward may write into."""
    return type(value) in (list, dict)


class Constant(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Random operators give the same number for every index, so that a cut does not change what the rest draws."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name == "native_dropout":
            kept = 1 / (1 - args[1]) if args[2] is not False and args[1] < 1 else 1.0
            return args[0] * kept, torch.ones_like(args[0], dtype=torch.bool)
        result = func(*args, **(kwargs or {}))
        return _settled(name, result)


def _settled(name: str, result: Any) -> Any:
    if not isinstance(result, Tensor):
        return result
    if name == "randperm":
        return result.sort().values
    ones = name.startswith("bernoulli")
    return result.fill_(1 if ones else 0.5 if result.is_floating_point() else 0)


def _apart(a: Tensor, b: Tensor) -> float:
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b.to(a.device)))
    a, b = a.double(), b.double()
    for odd in (torch.isnan, torch.isposinf, torch.isneginf):
        if not torch.equal(odd(a), odd(b)):
            return float("inf")
    sound = torch.isfinite(a)
    if not bool(sound.any()):
        return 0.0
    a, b = a[sound], b[sound]
    return float((a - b).abs().max()) / (float(a.abs().max()) or 1.0)


def _positional(example: Any) -> bool:
    """A plain tuple is a list of inputs; a named one, such as a packed sequence, is one input."""
    return isinstance(example, tuple) and not hasattr(example, "_fields") and not isinstance(example, States)
