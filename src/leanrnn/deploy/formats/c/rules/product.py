"""Products with weights."""

from __future__ import annotations

from torch import Tensor

from leanrnn.deploy.formats.c.code import moved
from leanrnn.deploy.formats.c.lowering import Call, Lowering, rule

__all__ = ["begin", "name_of"]


def name_of(call: Call, argument: str, hint: str = "weight") -> str:
    """What a weight is called in the model."""
    node = call.nodes[argument]
    return (
        str(node.target).removeprefix("model.") if getattr(node, "op", "") == "get_attr" else f"{call.node.name}_{hint}"
    )


def begin(low: Lowering, target: str, bias: Tensor | None, hint: str, size: int) -> None:
    """Fill with a bias, or with zeros."""
    low.code.copy(target, "" if bias is None else low.constant(bias, hint), size)


@rule("linear")
def _linear(low: Lowering, call: Call) -> None:
    _product(low, call, call["input"], call["weight"], call["bias"], ("weight", "bias"))


@rule("addmm")
def _addmm(low: Lowering, call: Call) -> None:
    if call["alpha"] != 1 or call["beta"] != 1:
        raise low.refused(call, "has factors besides. Multiply by them outside.")
    _product(low, call, call["mat1"], call["mat2"].t(), call["self"], ("mat2", "self"))


@rule("mm", "matmul")
def _mm(low: Lowering, call: Call) -> None:
    first, second = list(call.given)[:2]
    _product(low, call, call[first], call[second].t() if call[second].dim() == 2 else call[second], None, (second, ""))


def _product(low: Lowering, call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, names: tuple[str, str]) -> None:
    """A matrix times every row."""
    if low.computed(weight) or (bias is not None and low.computed(bias)) or weight.dim() != 2 or not low.computed(x):
        raise low.refused(call, "multiplies two tensors that only a run knows. A file of C multiplies with weights.")
    if low.over_time(call.nodes[next(k for k, v in call.given.items() if v is x)], -1):
        raise low.refused(call, "sums over the steps, and a file of C has one step at a time.")
    rows, columns = weight.shape
    source, target = low.read(x, f"{call.node.name}_in"), low.write(call.result, call.node.name)
    name = name_of(call, names[0])
    for i in range(x.numel() // columns):
        here, there = moved(target, i * rows), moved(source, i * columns)
        begin(low, here, bias, name_of(call, names[1], "bias") if names[1] else "", rows)
        low.code.add_product(here, there, weight, name)
