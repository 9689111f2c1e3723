"""Modules that only wrap another: compiled ones, and replicas. What they add to names is no part of a model. And models
that are spread over processes, which no wrapper makes whole again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from leanrnn.errors import UnsupportedModelError

__all__ = ["bare", "check_whole", "plain_name", "wrapped_like"]


def bare(model: nn.Module) -> nn.Module:
    """The model that ``torch.compile`` was given, or the model itself. ::

    bare(torch.compile(model)) is model
    """
    while _is_compiled(model):
        model = cast(nn.Module, model._modules["_orig_mod"])
    return model


def check_whole(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are spread over processes: a component is in all of their parts. ::

    check_whole(dict(model.named_parameters()))
    """
    for name, tensor in tensors.items():
        if type(tensor).__name__ == "DTensor":
            raise UnsupportedModelError(
                f"{name} is a DTensor: fully_shard, or tensor parallel, has spread the model over processes, and its "
                "components cannot be cut there. Train it with DistributedDataParallel, shrink it, and call "
                "fully_shard on the small model."
            )


def wrapped_like(model: nn.Module, small: nn.Module) -> nn.Module:
    """``small`` compiled in the same way as ``model``, if that is; compiling begins with its first call. ::

    wrapped_like(torch.compile(model), small)
    """
    if not _is_compiled(model):
        return small
    kind: Any = type(model)
    inner = wrapped_like(cast(nn.Module, model._modules["_orig_mod"]), small)
    return cast(nn.Module, kind(inner, vars(model)["dynamo_ctx"]))


def plain_name(model: nn.Module, name: str) -> str:
    """The name of a module or tensor without the parts that wrappers add. ::

    plain_name(torch.compile(model), "_orig_mod.rnn.weight_hh_l0")  # rnn.weight_hh_l0
    """
    kept, here = list[str](), cast("nn.Module | None", model)
    for part in name.split("."):
        if here is None or part != _inner(here):
            kept.append(part)
        parts = {} if here is None else here._modules
        here = parts[part] if part in parts else None  # that of a TorchScript module has no get
    return ".".join(kept)


def _inner(module: nn.Module) -> str:
    """Under which name a wrapper has what it wraps; empty for any other module."""
    if _is_compiled(module):
        return "_orig_mod"
    return "module" if isinstance(module, DataParallel | DistributedDataParallel) else ""


def _is_compiled(module: nn.Module) -> bool:
    # By name: importing the compiler takes as long as importing the rest of torch.
    return type(module).__name__ == "OptimizedModule" and "_orig_mod" in module._modules
