"""A shrunk model in one safetensors file: its tensors, and the plan of what was cut as JSON beside them. No pickle."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from leanrnn.environment import check_target
from leanrnn.errors import CheckpointError, GroupsError
from leanrnn.groups.groups import named_tensors
from leanrnn.groups.numbers import check_numbers
from leanrnn.groups.wrapped import bare, plain_name
from leanrnn.running.attributes import set_attribute
from leanrnn.surgery.cut import cut_held_, cut_tensors_
from leanrnn.surgery.plan import Plan, set_plan, whole_plan

__all__ = ["FORMAT", "about", "load", "save", "write_tensors"]

FORMAT = 1
"""Version of the file; a reader refuses what is newer."""
_KEY = "leanrnn"


def save(model: nn.Module, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> None:
    """Write ``model``, shrunk or not, to ``path``; the file is complete or is not there. ::

    leanrnn.save(small, "small.safetensors")
    small = leanrnn.load("small.safetensors", lambda: Model(vocabulary=10000, width=1500))

    ``about`` is plain data of yours to keep with it, such as what the factory has to know.
    """
    target, model = Path(path), bare(model)
    check_target(target, CheckpointError)
    check_numbers(model, CheckpointError)
    tensors, same = _distinct(model)
    plan = whole_plan(model).renamed(partial(plain_name, model)).to_json()
    try:
        header = {_KEY: json.dumps({"format": FORMAT, "same": same, "plan": plan, "about": about or {}})}
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"what is said about the model is not plain data ({error}). Give what JSON takes."
        ) from error
    # Beside the target, so that the last step is a rename within one file system.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    try:
        write_tensors(tensors, Path(name), header)
        _publish(Path(name), target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], factory: Callable[[], nn.Module]) -> nn.Module:
    """The model that :func:`save` wrote. ``factory`` is the constructor of the dense model it was shrunk from.

    :class:`CheckpointError` says which tensor does not fit if it is another model's constructor, and tells a damaged,
    foreign or newer file from each other.
    """
    tensors, same, plan = _read(Path(path))
    whole = _made(factory)
    model = bare(whole)
    own = _own_names(model)
    tensors = {own(name): tensor for name, tensor in tensors.items()}
    same, plan = {own(name): own(first) for name, first in same.items()}, plan.renamed(own)
    _check_factory(model, plan, path)
    try:
        _apply(model, plan)
    except (GroupsError, IndexError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} cannot be rebuilt from {type(model).__name__}: {error}. Pass the constructor of the dense model."
        ) from error
    _fill(model, {**tensors, **{name: tensors[first] for name, first in same.items()}}, path)
    return whole


def _own_names(model: nn.Module) -> Callable[[str], str]:
    """What a name of a file is in this model, which may be wrapped in other ways than the model that was saved."""
    names = [*model.state_dict(), *(name for name, _ in model.named_modules(remove_duplicate=False))]
    own: dict[str, str] = {plain_name(model, name): name for name in names}

    def find(name: str) -> str:
        plain = name.replace("_orig_mod.", "")  # as files had it before names were made plain
        return own.get(name, own.get(plain, plain))

    return find


def _made(factory: Callable[[], nn.Module]) -> nn.Module:
    if isinstance(factory, nn.Module):
        raise CheckpointError(
            f"a {type(factory).__name__} was given in place of a function that makes one. Pass its constructor: "
            f"lambda: {type(factory).__name__}(...)."
        )
    model: object = factory()
    if not isinstance(model, nn.Module):
        raise CheckpointError(f"the factory returned a {type(model).__name__}. Return the dense model alone from it.")
    return model


def write_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """A safetensors file; a full disk is the error that it is for any file."""
    try:
        save_file(dict(tensors), path, metadata=dict(metadata or {}))
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(path)) from error
        raise


def about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What was given to :func:`save` as ``about``; nothing is loaded. ::

    leanrnn.load(path, lambda: Model(**leanrnn.about(path)["sizes"]))
    """
    return dict(_header(Path(path))["about"])


def _distinct(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every tensor of the state once, and for its further names the name it is stored under."""
    tensors: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for full, tensor in model.state_dict().items():
        name = plain_name(model, full)
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{name} in the state of the model is no tensor. Save it apart from the model.")
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and place in first:
            same[name] = first[place]
        else:
            first[place] = name
            # A tensor that shares its memory with others (a view, a flattened block) is stored on its own.
            tensors[name] = tensor.detach().contiguous().clone() if _is_part(tensor) else tensor.detach()
    return tensors, same


def _is_part(tensor: Tensor) -> bool:
    return not tensor.is_contiguous() or tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()


def _publish(written: Path, target: Path) -> None:
    """Put a written file in its place, with its bytes on the disk first and the rights any new file would get."""
    with written.open("rb") as file:
        os.fsync(file.fileno())
    mask = os.umask(0)
    os.umask(mask)
    written.chmod(0o666 & ~mask)
    written.replace(target)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str], Plan]:
    header = _header(path)
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, header["same"], header["plan"]  # no mapping


def _header(path: Path) -> dict[str, Any]:
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder. Give the file in it that leanrnn.save has written.")
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}. Write one with leanrnn.save(model, path).")
    try:
        with safe_open(path, framework="pt") as file:
            return _parsed(path, (file.metadata() or {}).get(_KEY))
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is damaged or no safetensors file ({error}). Copy it again from where it was written."
        ) from error


def _parsed(path: Path, header: str | None) -> dict[str, Any]:
    if header is None:
        raise CheckpointError(
            f"{path} was not written by leanrnn. Load it with safetensors, or write one with leanrnn.save."
        )
    try:
        data = json.loads(header)
        version = int(data["format"])
        if version <= FORMAT:
            plan = Plan.from_json(data["plan"])
            return {"same": dict(data["same"]), "plan": plan, "about": dict(data.get("about", {}))}
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"the plan in {path} cannot be read ({error}). Write the file again.") from error
    raise CheckpointError(f"{path} has format {version}, and this leanrnn reads up to {FORMAT}. Update leanrnn.")


def _check_factory(model: nn.Module, plan: Plan, path: str | os.PathLike[str]) -> None:
    """Every tensor that is to be cut has the shape it was cut from."""
    tensors = named_tensors(model)
    for (name, axis), length in plan.lengths.items():
        shape = tuple(tensors[name].shape) if name in tensors else None
        if shape is None or axis >= len(shape) or shape[axis] != length:
            raise CheckpointError(
                f"{path} was cut from a {name!r} of {length} along axis {axis}, which the factory's "
                f"{type(model).__name__} has as {shape}. Pass the constructor of the dense model, with its sizes."
            )


def _apply(model: nn.Module, plan: Plan) -> None:
    cut_tensors_(model, {key: np.asarray(kept, np.int64) for key, kept in plan.cuts.items()}, plan.plain)
    for (module, path), value in plan.numbers.items():
        set_attribute(model, module, path, value)
    cut_held_(model, {place: (length, np.asarray(kept, np.int64)) for place, (length, kept) in plan.held.items()})
    if plan.cuts:  # of a model that nothing was cut out of there is none
        set_plan(model, plan)


def _fill(model: nn.Module, tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Strictly: the same names and the same shapes, or an error that names the first that is not."""
    state = model.state_dict()
    for name in [*state, *tensors]:
        here = tuple(state[name].shape) if name in state else None
        there = tuple(tensors[name].shape) if name in tensors else None
        if here is None or there is None:
            where = f"the factory's {type(model).__name__}" if here is None else str(path)
            raise CheckpointError(f"there is no {name!r} in {where}. Pass the constructor of the model that was saved.")
        if here != there:
            raise CheckpointError(
                f"{name!r} has shape {there} in {path} and {here} in the factory's {type(model).__name__} once cut. "
                "Pass the constructor of the dense model, with its sizes."
            )
    shared: dict[int, str] = {}
    for name, tensor in named_tensors(model).items():
        if name in tensors:
            # The file decides on the type of the numbers, so that what is loaded is what was saved.
            tensor.data = tensor.data.to(tensors[name].dtype)
            other = shared.setdefault(id(tensor), name)
            if other != name and not torch.equal(tensors[other], tensors[name]):
                raise CheckpointError(
                    f"{other!r} and {name!r} are one tensor in the factory's {type(model).__name__} and two in {path}. "
                    "Pass a constructor that does not tie them."
                )
    model.load_state_dict(dict(tensors), strict=True)
