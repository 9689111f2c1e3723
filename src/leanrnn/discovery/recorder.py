"""Call a model once and write down the operators it executed, as pure functions of numbered values.

No graph is captured: the user's own forward runs, whatever Python is in it, under a ``TorchDispatchMode``. In-place
writes and views are turned into values on the way (``memory.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from leanrnn.discovery.functions import follow, functions_followed, look_inside
from leanrnn.discovery.instead import instead_of
from leanrnn.discovery.memory import Memory, Where
from leanrnn.discovery.tape import Node, Ref, Tape

__all__ = ["Recorder", "opaque_kernels_off", "record"]

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parents[1])
_LAYERS = str(Path(_TORCH, "nn"))
_RNN = (str(Path(_TORCH, "nn", "modules", "rnn.py")), str(Path(_HERE, "layers")))


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes every operator of one call onto a tape."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = Tape()
        self.memory = Memory(self.tape)
        self.handed: list[tuple[int, Where]] = []
        self.inside: list[bool] = []
        """The autograd.Functions that run just now; true where numbers appeared that no operator wrote."""
        self.empty: set[int] = set()
        """Values made inside of one for something to be written into."""

    def function(self, cls: type, forward: Callable[..., Any], *args: Any) -> Any:
        """Run the forward of an ``autograd.Function``."""
        return follow(self, cls, forward, args, _where())

    def read_out(self, tensor: Tensor) -> None:
        """Python reads the numbers of ``tensor``, as a decoder does that returns lists."""
        where = _where()
        self.handed.append((self.memory.read(tensor, where), where))

    def end(self, result: Sequence[Tensor]) -> None:
        """What the model returns is the result; where that holds no tensor, what Python read is."""
        self.tape.outputs = [self.memory.read(t, ("the model's result", False)) for t in result]
        self.tape.written += self.memory.written()
        for value, where in self.handed if not result else ():
            self.tape.nodes.append(Node(torch.ops.aten._local_scalar_dense.default, (Ref(value),), {}, [], *where))

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        instead = instead_of(func)
        if instead is not None:
            with self:
                return instead(*args, **kwargs)
        result = func(*args, **kwargs)
        where = _where()
        refs = tree_map(lambda a: Ref(self.memory.read(a, where)) if isinstance(a, Tensor) else a, (args, kwargs))
        outs = result if isinstance(result, (tuple, list)) else [result]
        flat = [t for t in outs if isinstance(t, Tensor)]
        viewed, written = _aliases(func, args, kwargs)
        turned = _view_of_itself(func)
        if turned is not None:
            func, viewed, written = turned, args[0], []
        ids = [self.tape.value(t) for t in flat]
        if self.inside:
            look_inside(self, func, tree_leaves((args, kwargs)), ids, viewed, written)
        self.tape.nodes.append(Node(func, refs[0], refs[1], list(ids), *where))
        if viewed is not None:
            for i, (tensor, value) in enumerate(zip(flat, ids, strict=True)):
                step = (func, refs[0][1:], refs[1], i, tuple(tensor.shape))
                if tensor is not viewed or turned is not None:
                    self.memory.view(tensor, viewed, step, value)
            return result
        for tensor, value in zip(flat, ids, strict=True):
            if any(tensor is t for t in written):
                self.memory.write(tensor, value, where)
            else:
                self.memory.made(tensor, value)
        return result


_READ_OUT = (Tensor.tolist, Tensor.numpy, Tensor.__array__)
"""What hands numbers to Python without an operator."""


class _Whole(TorchFunctionMode):
    """Keeps a norm in one piece that torch takes apart before the recorder sees it, and sees what Python reads."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _READ_OUT and isinstance(args[0], Tensor):
            self.recorder.read_out(args[0])
        if func not in (torch.rms_norm, torch.nn.functional.rms_norm):
            return func(*args, **(kwargs or {}))
        with _disable_current_modes():
            return self.recorder.__torch_dispatch__(torch.ops.aten.rms_norm.default, types, args, kwargs)


def record(
    call: Callable[[], Any],
    named: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    leaves: Callable[[Any], list[Tensor]],
    held: Sequence[Tensor] = (),
) -> tuple[Tape, Any]:
    """Run ``call`` and return the tape with what it returned; ``named`` are parameters and buffers, ``held`` other
    tensors of the model's own."""
    recorder = Recorder()
    for name, tensor in named.items():
        recorder.memory.source(tensor, "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer", name)
    for index, tensor in enumerate(held):
        recorder.memory.source(tensor, "held", str(index))
    for index, tensor in enumerate(inputs):
        recorder.memory.source(tensor, "input", str(index))
    with opaque_kernels_off(), torch.no_grad(), _Whole(recorder), functions_followed(recorder), recorder:
        result = call()
        recorder.end(leaves(result))
    return recorder.tape, result


@contextmanager
def opaque_kernels_off() -> Iterator[None]:
    """Switch off every fused kernel that hides a recurrent or attention layer behind one operator, on any device."""
    mkldnn = torch._C._get_mkldnn_enabled()
    fastpath = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.callback(torch._C._set_mkldnn_enabled, mkldnn)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fastpath)
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(torch.jit.optimized_execution(False))  # type: ignore[attr-defined]
        torch._C._set_mkldnn_enabled(False)
        torch.backends.mha.set_fastpath_enabled(False)
        yield


def _aliases(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor | None, list[Tensor]]:
    """The tensor of which the results are views, and the tensors the operator writes to."""
    viewed, written = None, []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None:
            continue
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        if argument.alias_info.is_write:
            written += [value] if isinstance(value, Tensor) else list(value or ())
        elif isinstance(value, Tensor) and any(r.alias_info is not None for r in func._schema.returns):
            viewed = value
    return viewed, written


def _view_of_itself(func: Any) -> Any:
    """The operator without the underscore, if ``func`` only gives its tensor another shape (``h.squeeze_(0)``)."""
    if torch.Tag.inplace_view not in func.tags:
        return None
    packet = getattr(torch.ops.aten, func.overloadpacket.__name__.rstrip("_"), None)
    plain = getattr(packet, func._overloadname, None)
    return plain if plain is not None and plain._schema.returns[0].alias_info is not None else None


def _where() -> Where:
    """File and line of the innermost frame outside torch and leanrnn, and whether torch's own recurrent code runs."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((_TORCH, __file__)) and not _in_layers(frame):
        frame = frame.f_back
    fused = frame is not None and frame.f_code.co_filename.startswith(_RNN)
    while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _HERE)):
        frame = frame.f_back
    return ("torch" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"), fused


def _in_layers(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LAYERS)
