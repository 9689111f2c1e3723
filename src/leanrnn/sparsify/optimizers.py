"""What a step hook has to know of optimizers: which parameters it has, how far a step goes, and how they
are replaced in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import index_tensor
from leanrnn.groups.wrapped import check_whole
from leanrnn.surgery.cut import Replaced

__all__ = [
    "check_parameters",
    "check_state",
    "closure_then",
    "gradient_amounts",
    "parameters_of",
    "proximal_amounts",
    "replace_parameters_",
    "unwrapped",
]


def unwrapped(optimizer: Optimizer) -> Optimizer:
    """The optimizer whose ``step`` really runs: frameworks hand out wrappers that keep it in ``.optimizer``."""
    inner = getattr(optimizer, "optimizer", None)
    return unwrapped(inner) if isinstance(inner, Optimizer) else optimizer


def parameters_of(optimizer: Optimizer) -> set[Tensor]:
    """The parameters of all its groups."""
    return {p for group in optimizer.param_groups for p in group["params"]}


def check_parameters(optimizers: Sequence[Optimizer], wanted: Mapping[str, Tensor]) -> None:
    """Every trainable parameter that is wanted has to be in one of the optimizers, and whole."""
    check_whole(wanted)
    known = {p for optimizer in optimizers for p in parameters_of(optimizer)}
    for name, parameter in wanted.items():
        if parameter.requires_grad and parameter not in known:
            raise GroupsError(
                f"{name!r} is in no attached optimizer. Give the optimizer all parameters that are in groups, "
                "freeze this one with requires_grad_(False), or leave its layer out in discover."
            )


def gradient_amounts(optimizer: Optimizer, strength: float) -> dict[Tensor, float | Tensor]:
    """What the gradient of the penalty is to be multiplied with, for every parameter.

    A fused optimizer under a GradScaler gets gradients that are still scaled, and the scale with them.
    """
    scale = getattr(optimizer, "grad_scale", None)
    amount = strength if scale is None else scale * strength
    return {
        p: -amount if group.get("maximize") else amount for group in optimizer.param_groups for p in group["params"]
    }


def proximal_amounts(optimizer: Optimizer, strength: float) -> dict[Tensor, float | Tensor]:
    """Learning rate times strength for every parameter; nothing where a fused optimizer skips the step."""
    skipped = getattr(optimizer, "found_inf", None)
    amount = strength if skipped is None else (skipped == 0) * strength
    return {p: group["lr"] * amount for group in optimizer.param_groups for p in group["params"]}


def closure_then(
    args: tuple[Any, ...], kwargs: dict[str, Any], act: Callable[[], None]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of ``step`` with ``act`` done after the closure, or None if there is no closure.

    A closure computes the gradients inside ``step``: what was added to them before would be lost.
    """
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if closure is None:
        return None

    def wrapped() -> Any:
        loss = closure()
        act()
        return loss

    return (args, {**kwargs, "closure": wrapped}) if "closure" in kwargs else ((args[0], wrapped, *args[2:]), kwargs)


def check_state(optimizers: Iterable[Optimizer], parameters: Mapping[str, Tensor]) -> None:
    """Refuse optimizer state that cannot be cut, before anything is changed."""
    for optimizer in optimizers:
        for name, parameter in parameters.items():
            for key, value in optimizer.state.get(parameter, {}).items():
                if not _fits(value, parameter.shape):
                    raise GroupsError(
                        f"{type(optimizer).__name__} keeps {key!r} of {name!r} in a form that has no rows and columns "
                        "to cut. Use an optimizer whose state has the shape of the parameter, or shrink after training."
                    )


def replace_parameters_(optimizer: Optimizer, replaced: Sequence[Replaced]) -> None:
    """Put the new parameters in place of the old: in the groups of an optimizer and in its state, cut the same way."""
    by_old = {id(item.old): item for item in replaced}
    for group in optimizer.param_groups:
        # The same list, not another: schedulers and wrappers have it too.
        group["params"][:] = [by_old[id(p)].new if id(p) in by_old else p for p in group["params"]]
    for item in replaced:
        state = optimizer.state.pop(item.old, None)
        if state is not None:
            optimizer.state[item.new] = {key: _cut(value, item) for key, value in state.items()}


def _fits(value: Any, shape: torch.Size) -> bool:
    if isinstance(value, Tensor):
        same = value.dim() == len(shape) and all(a in (b, 1) for a, b in zip(value.shape, shape, strict=True))
        return same or value.numel() == 1
    return not isinstance(value, (list, tuple, dict))


def _cut(value: Any, item: Replaced) -> Any:
    if not isinstance(value, Tensor) or value.dim() != item.old.dim():
        return value
    for axis, positions in item.kept.items():
        if value.size(axis) == item.old.size(axis):
            value = value.index_select(axis, index_tensor(positions, value.device))
    return value
