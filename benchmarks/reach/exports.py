"""The model that was cut, as a file: is it written, does it run where nobody traced it, and in eight bits?

What leanrnn says of its file is not believed: it is run with onnxruntime alone, every length that it promises is varied,
alone and with all others, and a length that it fixes is tried in the model, which may be able to vary it.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

import leanrnn
from benchmarks.reach.page import short

ALLOWED = 1e-4  # float32, relative to the largest number of an output
Inputs: TypeAlias = tuple[Any, ...]
Axes: TypeAlias = Mapping[str, tuple[str | int, ...]]


def as_file(model: nn.Module, inputs: Inputs, run: Callable[[nn.Module, Inputs], list[Tensor]]) -> dict[str, Any]:
    """What became of it; ``run`` gives all tensors that a model answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            written = leanrnn.export(model, tuple(inputs), path)
        except leanrnn.errors.LeanRNNError as error:
            return {"written": False, "why": {"onnx": short(str(error))}}
        except Exception as error:
            return {"written": False, "raw": True, "why": {"onnx": short(f"{type(error).__name__}: {error}")[:300]}}
        found = Lengths(model, inputs, written.inputs, run).tried(path)
        return {"written": True, **found} | _eight_bits(path, found["why"])


def _eight_bits(path: Path, why: dict[str, str]) -> dict[str, Any]:
    """How far the same in eight bits is apart, and what is to be said of it."""
    try:
        return {"int8": leanrnn.quantize(path).difference}
    except leanrnn.errors.LeanRNNError as error:
        return {"int8": None, "why": why | {"int8": short(str(error))}}
    except Exception as error:
        return {"int8": None, "raw": True, "why": why | {"int8": short(f"{type(error).__name__}: {error}")[:300]}}


class Lengths:
    """The lengths of a file's inputs, varied."""

    def __init__(self, model: nn.Module, inputs: Inputs, axes: Axes, run: Callable[..., list[Tensor]]) -> None:
        self.model, self.inputs, self.axes, self.run = model, inputs, axes, run
        self.leaves = list(_leaves(inputs))
        shapes = zip(axes.values(), self.leaves, strict=True)
        self.sizes = {name: leaf.shape[i] for shape, leaf in shapes for i, name in enumerate(shape) if _is_word(name)}

    def tried(self, path: Path) -> dict[str, Any]:
        """Which lengths the file takes as the model does, and which the model takes alone."""
        import onnxruntime

        session, why = onnxruntime.InferenceSession(str(path)), {}
        equal, worst, all_of_them = [], 0.0, dict[str, int]()
        for name, size in self.sizes.items():
            for other in (size + 2, size + 3, 2 * size, 1):
                wanted = self._answered(self._varied({name: other}))
                if wanted is None:
                    continue
                all_of_them.setdefault(name, other)
                apart = self._apart(session, *wanted)
                worst = max(worst, apart) if isinstance(apart, float) else worst
                if not isinstance(apart, float):
                    why["lengths"] = f"{name} {other} in place of {size}: {apart}"
            equal += [name] if name in all_of_them and "lengths" not in why else []
        together = self._answered(self._varied(all_of_them))
        apart = self._apart(session, *together) if together else 0.0
        if not isinstance(apart, float):
            why["lengths"] = f"{all_of_them} at once: {apart}"
        fixed = list(self._fixed_by_the_file())
        return {
            "equal": equal,
            "fixed": fixed,
            "difference": max(worst, apart if isinstance(apart, float) else 0.0),
            "why": why,
        }

    def _fixed_by_the_file(self) -> Iterator[str]:
        """Axes that have a number in the file, and that the model takes at another length."""
        numbers = [
            (i, axis) for i, shape in enumerate(self.axes.values()) for axis, n in enumerate(shape) if not _is_word(n)
        ]
        for i, axis in numbers:
            size = self.leaves[i].shape[axis]
            alike = [(j, other) for j, other in numbers if self.leaves[j].shape[other] == size]
            rows = [(j, other) for j, other in alike if other == axis]
            for places in ([(i, axis)], rows, alike):
                if self._answered(self._resized(dict.fromkeys(places, size + 2), {size: size + 2})):
                    yield f"{list(self.axes)[i]}.{axis}"
                    break

    def _varied(self, sizes: dict[str, int]) -> list[Inputs]:
        """Inputs of these lengths; the second also with the counts in it as they would be then."""
        places = {
            (i, axis): _value(str(name), self.sizes | sizes)
            for i, shape in enumerate(self.axes.values())
            for axis, name in enumerate(shape)
        }
        return self._resized(places, {self.sizes[name]: size for name, size in sizes.items()})

    def _resized(self, places: dict[tuple[int, int], int], counts: dict[int, int]) -> list[Inputs]:
        """The last entry is repeated, or the first are kept: an index stays an index, and what is sorted sorted."""

        def one(i: int, tensor: Tensor, counted: bool) -> Tensor:
            for axis in range(tensor.dim()):
                size = places.get((i, axis), tensor.shape[axis])
                tensor = tensor.index_select(axis, torch.arange(size).clamp(max=tensor.shape[axis] - 1))
            whole = not tensor.is_floating_point() and tensor.dim() == 1 and tensor.numel()
            old = int(tensor.max()) if counted and whole else None
            return tensor if old not in counts else torch.where(tensor == old, counts[old], tensor)

        return [rebuilt(self.inputs, [one(i, leaf, c) for i, leaf in enumerate(self.leaves)]) for c in (False, True)]

    def _answered(self, candidates: list[Inputs]) -> tuple[Inputs, list[Tensor]] | None:
        """The first of these inputs that the model takes, and what it says to it."""
        for inputs in candidates:
            try:
                return inputs, self.run(self.model, inputs)
            except Exception:  # of a model at a length it was not made for
                continue
        return None

    def _apart(self, session: Any, inputs: Inputs, wanted: list[Tensor]) -> float | str:
        """How far the file is from that, or what is wrong with it."""
        try:
            known = {each.name for each in session.get_inputs()}
            arrays = zip(self.axes, (leaf.numpy() for leaf in _leaves(inputs)), strict=True)
            found = session.run(None, {name: array for name, array in arrays if name in known})
        except Exception as error:
            return short(str(error))[:300]
        if [tuple(a.shape) for a in wanted] != [b.shape for b in found]:
            return f"shapes {[b.shape for b in found]} in place of {[tuple(a.shape) for a in wanted]}"
        far = max((_far(a, torch.from_numpy(b)) for a, b in zip(wanted, found, strict=True)), default=0.0)
        return far if far <= ALLOWED else f"differs by {far:.1e}"


def _far(wanted: Tensor, found: Tensor) -> float:
    wanted, found = wanted.double(), found.double()
    if not torch.equal(wanted.isnan(), found.isnan()):
        return float("inf")
    same = (wanted == found) | wanted.isnan()
    size = wanted.abs().nan_to_num(0, posinf=0).max().clamp(min=1e-6) if wanted.numel() else 1.0
    return float(((wanted - found).abs().masked_fill(same, 0) / size).max()) if wanted.numel() else 0.0


def _is_word(size: str | int) -> bool:
    return isinstance(size, str) and size.isidentifier()


def _value(size: str, sizes: Mapping[str, int]) -> int:
    """Of a length such as ``2*time + 1``."""
    return int(eval(re.sub(r"[^\w\s+*()/-]", "", size), {"__builtins__": {}}, dict(sizes)))


def _leaves(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    for part in _parts(value).values():
        yield from _leaves(part)


def rebuilt(value: Any, leaves: list[Tensor]) -> Any:
    """The same containers around other tensors, which are taken from the list."""
    if isinstance(value, Tensor):
        return leaves.pop(0)
    parts = {key: rebuilt(part, leaves) for key, part in _parts(value).items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **parts)
    if isinstance(value, dict):
        return type(value)(parts)
    if isinstance(value, (tuple, list)):
        return type(value)(*parts.values()) if hasattr(value, "_fields") else type(value)(parts.values())
    return value


def _parts(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return {}
