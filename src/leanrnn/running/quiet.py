"""Run a model and leave it, and the random numbers, as they were."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from leanrnn.running.attributes import attribute_tensors

__all__ = ["Constant", "quiet"]


@contextlib.contextmanager
def quiet(model: nn.Module) -> Iterator[None]:
    """Afterwards all tensors, attributes and modes of ``model`` and the random state are what they were before."""
    devices = {p.device for p in model.parameters() if p.device.type in ("cuda", "xpu")}
    kind = next(iter(devices)).type if devices else "cuda"
    # A compiled program cannot be given other tensors: what is in its own may change, and is set back.
    python = [m for m in model.modules() if not isinstance(m, torch.jit.ScriptModule)]
    saved = [(m, dict(vars(m)), dict(m._parameters), dict(m._buffers)) for m in python]
    written = list(model.buffers())
    written += attribute_tensors(model).values()
    values = {id(t): (t, t.detach().clone()) for t in written}
    lists = [(value, copy.copy(value)) for _, attributes, *_ in saved for value in attributes.values() if _fills(value)]
    # What a prediction under inference_mode left in the model can be written to in that mode alone.
    mode = torch.inference_mode(any(t.is_inference() for t in written) or torch.is_inference_mode_enabled())
    # cuDNN draws the dropout between layers inside one kernel, where no one can hold it still.
    fused = torch.backends.cudnn.flags(enabled=False) if devices and model.training else contextlib.nullcontext()
    try:
        indices = [d.index or 0 for d in devices if d.type == kind]
        with torch.random.fork_rng(indices, device_type=kind), fused, mode:
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
                with torch.inference_mode(tensor.is_inference()):
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
            scale = 1 / (1 - args[1]) if args[2] is not False and args[1] < 1 else 1.0
            return args[0] * scale, torch.ones_like(args[0], dtype=torch.bool)
        result = func(*args, **(kwargs or {}))
        return _settled(name, result)


def _settled(name: str, result: Any) -> Any:
    if not isinstance(result, Tensor):
        return result
    if name == "randperm":
        return result.sort().values
    ones = name.startswith("bernoulli")
    return result.fill_(1 if ones else 0.5 if result.is_floating_point() else 0)
