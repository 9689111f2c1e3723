"""Recurrent layers as whole operators while a model is traced."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan  # not public yet; tests run on the version it is known from
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode

from leanrnn.deploy import operators
from leanrnn.deploy.passed import passed
from leanrnn.errors import ExportError
from leanrnn.layers import RecurrentHighway, States
from leanrnn.layers.highway_steps import highway_step
from leanrnn.layers.recurrent import Recurrent, slots_of, widths_of
from leanrnn.layers.states import narrow
from leanrnn.running.user_line import running_place

__all__ = ["whole_layers"]

CLASSES: tuple[type[nn.Module], ...] = (nn.LSTM, nn.GRU, nn.RNN, Recurrent)
_ONE_AT_A_TIME = threading.Lock()


@contextlib.contextmanager
def whole_layers() -> Iterator[Padded]:
    """Inside, nn.LSTM, nn.GRU and nn.RNN run as operators of leanrnn, one a layer and direction, and a highway layer as
    a scan."""
    with _ONE_AT_A_TIME:
        functions = dict.fromkeys(inspect.unwrap(cls.forward) for cls in CLASSES)
        steps, codes = RecurrentHighway.steps, [(f, f.__code__) for f in functions]
        try:
            # In the functions themselves: a module may hold on to its forward, as weight drop does.
            for function, _ in codes:
                function.__code__ = _elsewhere.__code__
            RecurrentHighway.steps = staticmethod(_highway)  # type: ignore[assignment]
            kinds = [mock.patch.object(kind, "tolist", _listed) for kind in (FakeTensor, FunctionalTensor)]
            with Padded() as padded, kinds[0], kinds[1]:
                yield padded
        finally:
            RecurrentHighway.steps = staticmethod(steps)  # type: ignore[method-assign]
            for function, code in codes:
                function.__code__ = code


def _elsewhere(self: Any, input: Any, hx: Any = None) -> Any:
    """The code of a layer's forward while a model is traced; it sees no names of this file."""
    from leanrnn.deploy.tracing import _forward

    return _forward(self, input, hx)


class Padded(TorchFunctionMode):
    """Packed sequences stay padded: their data has three axes, and their batch sizes are the lengths."""

    filled = False
    """Whether the longest sequence is taken to be as long as the padding."""
    relied = False
    """Whether something was padded again meanwhile, so that a file is right in that case alone."""

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Inside, it is: what is padded again has the length that it had before."""
        self.filled = True
        try:
            yield
        finally:
            self.filled = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "dropout" and not (args[2] if len(args) > 2 else (kwargs or {}).get("training", True)):
            return args[0]  # the very tensor, as outside: a parameter may become a parameter again
        if name == "__bool__" and (known := passed()) is not None:
            return known
        if name == "as_tensor" and isinstance(args[0], Listed):
            return args[0].tensor.to(**(kwargs or {}))
        if name.startswith("split") and any(isinstance(each, Listed) for each in (*args, *(kwargs or {}).values())):
            raise ExportError(_split_by_numbers())
        if name == "_pack_padded_sequence":
            x, lengths, batch_first = args
            return x.transpose(0, 1) if batch_first else x, lengths
        if name == "_pad_packed_sequence":
            x, lengths, batch_first, value, total = args
            if value:
                raise ExportError(
                    f"pad_packed_sequence fills with {value}, and an exported layer with 0. Leave padding_value at 0."
                )
            # Without a total length torch passes the number of batch sizes, which here is the number of sequences.
            to_the_end = _is(total, x.size(0))
            self.relied |= self.filled and not to_the_end
            y = x if self.filled or to_the_end else operators.longest(x, lengths)
            if not getattr(x, "ends_in_zeros", False):  # what was computed of it, which is packed outside
                step = torch.arange(y.size(0), device=y.device).unsqueeze(1)
                inside = (step < lengths.to(y.device)).view(y.size(0), y.size(1), *(1 for _ in y.shape[2:]))
                y = torch.where(inside, y, torch.zeros_like(y))
            return y.transpose(0, 1) if batch_first else y, lengths
        return func(*args, **(kwargs or {}))


def _split_by_numbers() -> str:
    """Why a list that is a tensor cannot say how long parts are."""
    place = running_place()
    return (
        f"the model splits a tensor{f' at {place}' if place else ''} into parts as long as the numbers in another, "
        "such as the batch sizes of a packed sequence: how many parts there are, only a run knows. Compute with padded "
        "tensors and a mask there, or use nn.LSTM or nn.GRU, which take packed sequences."
    )


class Listed(Sequence[Any]):
    """A list made of a tensor, as of lengths that are packed: it stays the tensor until somebody asks for a number."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __getitem__(self, key: Any) -> Any:
        return TO_LIST[type(self.tensor)](self.tensor)[key]

    def __len__(self) -> int:
        return int(self.tensor.size(0))


TO_LIST = {kind: kind.tolist for kind in (FakeTensor, FunctionalTensor)}


def _listed(tensor: Any) -> Any:
    """What ``tolist`` gives while a model is traced; of fixed length it may be a list of axes."""
    return (
        Listed(tensor)
        if tensor.dim() == 1 and isinstance(tensor.size(0), torch.SymInt)
        else TO_LIST[type(tensor)](tensor)
    )


def _is(size: Any, other: Any) -> bool:
    """Whether two lengths are one by construction, not by the chance of an example."""
    if isinstance(size, torch.SymInt) and isinstance(other, torch.SymInt):
        return bool(size.node.expr == other.node.expr)
    return type(size) is type(other) and bool(size == other)


def _forward(self: nn.RNNBase, input: Tensor | PackedSequence, hx: Any = None) -> Any:
    """What torch's module answers, through the operators."""
    if self.proj_size:
        raise ExportError(
            f"a recurrent layer has proj_size={self.proj_size}, which ONNX has no operator for. Use a linear layer "
            "behind it, or export without proj_size."
        )
    lengths, order, back = None, None, None
    if isinstance(input, PackedSequence):
        x, lengths, order, back = input
        batched = True
    else:
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(1)
        x = x.transpose(0, 1) if self.batch_first and batched else x
    parts = 2 if self.mode == "LSTM" else 1
    given = [None] * parts if hx is None else list(hx) if parts == 2 else [hx]
    states = [_slots(self, i, part, batched, order) for i, part in enumerate(given)]
    last: list[list[Tensor]] = [[] for _ in range(parts)]
    slots = slots_of(self)
    for layer in range(self.num_layers):
        outputs = []
        for slot in [name for name in slots if name.removesuffix("_reverse") == f"_l{layer}"]:
            y, *after = _one(self, slot, x, [part[slots.index(slot)] for part in states], lengths)
            outputs.append(y)
            for found, each in zip(last, after, strict=True):
                found.append(each)
        x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
    answer = [_returned(found, batched, back) for found in last]
    if lengths is not None:
        x.ends_in_zeros = True  # type: ignore[attr-defined]
        y = PackedSequence(x, lengths, order, back)  # type: ignore[assignment]
    else:
        y = x.squeeze(1) if not batched else x.transpose(0, 1) if self.batch_first else x
    return y, tuple(answer) if parts == 2 else answer[0]


def _highway(x: Tensor, s: Tensor, mask: None, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """All steps of a highway layer; torch's scan becomes ONNX's."""
    turned = [weight.t() for weight in weights]  # here, not in every step

    def step(s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        s = highway_step(x, s, mask, turned, biases)
        return s, s.clone()

    return cast(Tensor, scan(step, s, x)[1])


def _one(
    module: nn.RNNBase, slot: str, x: Tensor, state: list[Tensor | None], lengths: Tensor | None
) -> tuple[Tensor, ...]:
    """One layer, one direction; its outputs and last state."""
    weights = [getattr(module, name + slot, None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    rest = (*state, *weights, lengths, slot.endswith("_reverse"))
    if module.mode == "LSTM":
        return cast(tuple[Tensor, ...], operators.lstm(x, *rest))
    if module.mode == "GRU":
        return cast(tuple[Tensor, ...], operators.gru(x, *rest))
    return cast(tuple[Tensor, ...], operators.rnn(x, *rest, module.mode.removeprefix("RNN_").lower()))


def _slots(module: nn.RNNBase, part: int, state: Any, batched: bool, order: Tensor | None) -> list[Tensor | None]:
    """Of a given state a piece (1, batch, width) for every layer and direction; one of a former width is narrowed."""
    if state is None:
        return [None] * len(slots_of(module))
    if isinstance(state, Tensor):
        pieces = [state] if len(slots_of(module)) == 1 else list(torch.split(state, 1))
    else:
        pieces = [each.unsqueeze(0) for each in state]
    if former := getattr(module, "former", ()):
        widths = widths_of(module, part)
        pieces = [narrow(each, *slot) for each, *slot in zip(pieces, widths, former[part], strict=True)]
    pieces = pieces if batched else [each.unsqueeze(1) for each in pieces]
    return [each if order is None else each.index_select(1, order) for each in pieces]


def _returned(found: list[Tensor], batched: bool, back: Tensor | None) -> Any:
    found = [each if back is None else each.index_select(1, back) for each in found]
    found = found if batched else [each.squeeze(1) for each in found]
    if len({each.size(-1) for each in found}) == 1:
        return torch.cat(found) if len(found) > 1 else found[0]
    return States(each.squeeze(0) for each in found)
