"""What integers are chosen from: argmax of a few scores rarely changes, the scores themselves always do."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Choices"]

_SHAPES = ("empty", "zeros", "ones", "full", "new", "rand")
"""How names of operators begin that take the shape of a tensor and not its numbers."""
_WITH_PLACES = ("max", "min", "sort", "topk", "mode", "median", "nanmedian", "kthvalue", "cummax", "cummin")
"""Operators that give numbers and where they stood."""


class Choices(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the floating point numbers that operators turn into integers, truth values or numbers of Python. ::

    with Choices() as choices:
        tags = model(x)
    choices.seen  # the scores, copied
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        chosen = name in _WITH_PLACES or not any(map(_floating, tree_leaves(result)))
        if chosen and not name.startswith(_SHAPES):
            self.seen += [item.detach().clone() for item in tree_leaves((args, kwargs)) if _floating(item)]
        return result


def _floating(item: Any) -> bool:
    return isinstance(item, Tensor) and (item.is_floating_point() or item.is_complex())
