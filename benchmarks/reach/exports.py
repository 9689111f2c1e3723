"""The model that was cut, as a file: is it written, does it run where nobody traced it, and in eight bits?

What leanrnn says of its file is not believed: it is run with onnxruntime alone, every length that it promises is
varied, by itself and with all others, and one that it fixes is tried in the model, which may be able to vary it.
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
        found = Lengths(model, inputs, written.inputs, run, filled=bool(written.notes)).tried(path)
        return {"written": True, **found} | _eight_bits(path, found["why"])


def _eight_bits(path: Path, why: dict[str, str]) -> dict[str, Any]:
    """How far the same in eight bits is apart, and what is to be said of it."""
    try:
        return {"int8": leanrnn.quantize(path, seconds=0).difference}
    except leanrnn.errors.LeanRNNError as error:
        return {"int8": None, "why": why | {"int8": short(str(error))}}
    except Exception as error:
        return {"int8": None, "raw": True, "why": why | {"int8": short(f"{type(error).__name__}: {error}")[:300]}}


class Lengths:
    """The lengths of a file's inputs, varied."""

    def __init__(
        self, model: nn.Module, inputs: Inputs, axes: Axes, run: Callable[..., list[Tensor]], filled: bool = False
    ) -> None:
        self.model, self.inputs, self.axes, self.run = model, inputs, axes, run
        self.counted = (True, False) if filled else (False, True)
        """Whether counts among the inputs follow a length: at first, where the file says that they have to."""
        self.leaves = list(_leaves(inputs))
        shapes = zip(axes.values(), self.leaves, strict=True)
        self.sizes = {name: leaf.shape[i] for shape, leaf in shapes for i, name in enumerate(shape) if _is_word(name)}

    def tried(self, path: Path) -> dict[str, Any]:
        """Which lengths the file takes as the model does, and which the model takes alone."""
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path))
        wrong, equal, worst = dict[str, str](), list[str](), 0.0
        together: dict[str, int] = {}
        for name, size in self.sizes.items():
            for other in (size + 2, size + 3, 2 * size, 1):
                if (answered := self._answered(self._varied({name: other}))) is not None:
                    together.setdefault(name, other)
                    worst = max(worst, self._apart(session, *answered, f"{name} {other}", wrong))
            equal += [name] * (name in together)
        if len(together) > 1 and (answered := self._answered(self._varied(together))) is not None:
            lengths = ", ".join(f"{name} {size}" for name, size in together.items())
            worst = max(worst, self._apart(session, *answered, lengths, wrong))
        why = {"lengths": "; ".join(f"with {key}, {text}" for key, text in wrong.items())} if wrong else {}
        equal = [name for name in equal if not any(re.search(rf"\b{name} ", key) for key in wrong)]
        return {"equal": equal, "fixed": list(self._fixed()), "difference": worst, "why": why}

    def _fixed(self) -> Iterator[str]:
        """Axes that have a number in the file, and that the model takes at another length."""
        shapes = enumerate(self.axes.values())
        numbers = [(i, axis) for i, shape in shapes for axis, size in enumerate(shape) if not _is_word(size) and size]
        for i, axis in numbers:
            size = self.leaves[i].shape[axis]
            alike = [(j, other) for j, other in numbers if self.leaves[j].shape[other] == size]
            rows = [(j, other) for j, other in alike if other == axis]
            wanted = (self._resized(dict.fromkeys(all_of, size + 2), {size: size + 2}) for all_of in (rows, alike))
            alone = self._resized({(i, axis): size + 2}, {size: size + 2})
            if any(self._answered(each) for each in (alone, *wanted)):
                yield f"axis {axis} of {list(self.axes)[i]}"

    def _varied(self, sizes: dict[str, int]) -> list[Inputs]:
        """Inputs of these lengths, with and without the counts in it as they would be then."""
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
                if size != tensor.shape[axis] > 0:
                    tensor = tensor.index_select(axis, torch.arange(size).clamp(max=tensor.shape[axis] - 1))
            whole = not tensor.is_floating_point() and tensor.dim() == 1 and tensor.numel()
            old = int(tensor.max()) if counted and whole else None
            return tensor if old not in counts else torch.where(tensor == old, counts[old], tensor)

        return [rebuilt(self.inputs, [one(i, leaf, c) for i, leaf in enumerate(self.leaves)]) for c in self.counted]

    def _answered(self, candidates: list[Inputs]) -> tuple[Inputs, list[Tensor]] | None:
        """The first of these inputs that the model takes, and what it says to it."""
        for inputs in candidates:
            try:
                return inputs, self.run(self.model, inputs)
            except Exception:  # of a model at a length it was not made for
                continue
        return None

    def _apart(self, session: Any, inputs: Inputs, wanted: list[Tensor], lengths: str, wrong: dict[str, str]) -> float:
        """How far the file is from that; what is wrong with it is noted."""
        known = {each.name for each in session.get_inputs()}
        arrays = zip(self.axes, (leaf.numpy() for leaf in _leaves(inputs)), strict=True)
        try:
            found = session.run(None, {name: array for name, array in arrays if name in known})
        except Exception as error:  # of onnxruntime
            wrong[lengths] = short(str(error))[:300]
            return 0.0
        shapes = [tuple(each.shape) for each in wanted], [each.shape for each in found]
        if shapes[0] != shapes[1]:
            wrong[lengths] = f"it gives the shapes {shapes[1]} in place of {shapes[0]}"
            return 0.0
        far = max((_far(a, torch.from_numpy(b)) for a, b in zip(wanted, found, strict=True)), default=0.0)
        if not far <= ALLOWED:
            wrong[lengths] = f"it differs by {far:.1e}"
        return far


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
