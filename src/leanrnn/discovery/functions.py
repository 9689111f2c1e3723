"""``torch.autograd.Function``: what runs inside one is recorded like anything else, as long as operators do the work.

A fused kernel leaves no operators: its numbers stand in a tensor that nothing on the tape wrote. Such a function
becomes one node of the tape, of which nothing is known but its name, unless a reference was registered for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import FunctionCtx, FunctionMeta
from torch.utils._python_dispatch import _disable_current_modes

from leanrnn.discovery.instead import LIKE, checked
from leanrnn.discovery.memory import Where
from leanrnn.discovery.tape import Node, Ref, Tape

if TYPE_CHECKING:
    from leanrnn.discovery.recorder import Recorder

__all__ = ["Opaque", "follow", "functions_followed", "look_inside"]

_MAKERS = re.compile(r"aten\.(new_)?(empty|zeros|ones|full)(_\w+)?")
"""They take the shape of what they are given, and none of its numbers."""
_RECORDERS = threading.local()
_HOOKED = {"times": 0}
_LOCK = threading.Lock()


class Opaque:
    """Stands on the tape for an operator: an ``autograd.Function`` whose work no operator shows."""

    tags: tuple[torch.Tag, ...] = ()
    namespace = "autograd"
    _overloadname = "default"

    def __init__(self, function: type, inputs: int, results: int) -> None:
        self.__name__ = function.__name__
        takes = ", ".join(f"Tensor t{i}" for i in range(inputs))
        self._schema = torch._C.parse_schema(f"autograd::function({takes}) -> ({', '.join(['Tensor'] * results)})")

    def __str__(self) -> str:
        return f"autograd.{self.__name__}"

    @property
    def overloadpacket(self) -> Opaque:
        """Itself: it has no overloads."""
        return self

    @property
    def words(self) -> str:
        """For the report."""
        return (
            f"{self.__name__}, an autograd.Function that does not work in operators "
            f"(leanrnn.register({self.__name__}, like=...) gives it a reference),"
        )


@contextmanager
def functions_followed(recorder: Recorder) -> Iterator[None]:
    """Let ``recorder`` see every ``autograd.Function`` that this thread applies.

    ``Scan.apply`` is often kept under another name before anybody can replace it, but each call looks ``forward`` up in
    the class, and that is where its metaclass can step in.
    """
    before = getattr(_RECORDERS, "now", None)
    _hook(1)
    _RECORDERS.now = recorder
    try:
        yield
    finally:
        _RECORDERS.now = before
        _hook(-1)


def _hook(times: int) -> None:
    """Other threads may discover at the same time: the last one takes the hook away."""
    with _LOCK:
        _HOOKED["times"] += times
        if _HOOKED["times"]:
            FunctionMeta.__getattribute__ = _look_up  # type: ignore[method-assign, assignment]
        else:
            del FunctionMeta.__getattribute__


def _look_up(cls: type, name: str) -> Any:
    found = type.__getattribute__(cls, name)
    recorder = getattr(_RECORDERS, "now", None)
    return found if name != "forward" or recorder is None else partial(recorder.function, cls, found)


def follow(recorder: Recorder, cls: Any, forward: Callable[..., Any], args: Sequence[Any], where: Where) -> Any:
    """Run ``forward``, or what was registered for it, and note if its results came out of nowhere."""
    with_context = cls.setup_context is torch.autograd.Function.setup_context
    given = args[1:] if with_context else args
    if cls in LIKE:
        return checked(cls.__qualname__, LIKE[cls], given, {}, lambda: forward(*_context(with_context, given), *given))
    tape = recorder.tape
    inputs = [Ref(recorder.memory.read(a, where)) for a in given if isinstance(a, Tensor)]
    first, start = len(tape.shapes), len(tape.nodes)
    recorder.inside.append(False)
    try:
        result = forward(*args)
    finally:
        unseen = recorder.inside.pop()
    found = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, Tensor)]
    with _disable_current_modes():  # this look at the numbers is none of the model's doing
        hidden = [
            t
            for t in found
            if unseen or (_varied(t) and not _comes_from(tape, recorder.memory.read(t, where), first, start))
        ]
    if any(t.is_floating_point() or t.is_complex() for t in hidden):
        outs = [recorder.memory.made(t) for t in hidden]
        tape.nodes.append(Node(Opaque(cls, len(inputs), len(outs)), tuple(inputs), {}, outs, *where))
    return result


def _context(wanted: bool, given: Sequence[Any]) -> list[Any]:
    """What a forward may keep its tensors in, for a call that only compares."""
    context = FunctionCtx()
    context.needs_input_grad = (False,) * len(given)  # type: ignore[attr-defined]
    return [context] if wanted else []


def _comes_from(tape: Tape, value: int, first: int, start: int) -> bool:
    """Whether operators since node ``start`` made ``value`` of what there was before, or drew or counted it."""
    made = {o: node for node in tape.nodes[start:] for o in node.outs if not _makes_empty(node.op)}
    todo, seen = [value], {value}
    while todo:
        i = todo.pop()
        if i < first or (i in made and not made[i].inputs()):
            return True
        more = set(made[i].inputs()) - seen if i in made else set()
        seen |= more
        todo += more
    return False


def look_inside(
    recorder: Recorder,
    op: Any,
    given: Sequence[Any],
    ids: Sequence[int],
    viewed: Tensor | None,
    written: Sequence[Tensor],
) -> None:
    """Note if an operator inside a function reads numbers out of a tensor that no operator wrote into: a kernel did."""
    read = [t for t in given if isinstance(t, Tensor) and not any(t is w for w in written)]
    hollow = [t for t in read if recorder.memory.known[t].value in recorder.empty]
    if _makes_empty(op) or (viewed is not None and hollow):
        recorder.empty.update(ids)
    elif any(t.is_floating_point() and _varied(t) for t in hollow):
        recorder.inside[-1] = True


def _makes_empty(op: Any) -> bool:
    """Whether an operator makes a tensor for others to write into."""
    return _MAKERS.fullmatch(str(op.overloadpacket)) is not None


def _varied(tensor: Tensor) -> bool:
    if tensor.device.type == "meta" or isinstance(tensor, FakeTensor) or tensor.numel() < 2:
        return False
    return not bool((tensor == tensor.reshape(-1)[0]).all())
