"""Why a model cannot be traced, in a sentence: what asked, in which line, and what to do."""

from __future__ import annotations

import re

from torch import fx

from leanrnn.running.user_line import place_in_trace, user_place

__all__ = ["drawn", "is_draw", "untraced"]

DATA = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException")
"""What torch raises where Python asks for a number that is in a tensor."""
DRAWS = (
    "rand",
    "randn",
    "rand_like",
    "randn_like",
    "randint",
    "randperm",
    "normal",
    "normal_functional",
    "bernoulli",
    "multinomial",
    "uniform",
    "exponential",
    "standard_gamma",
    "sample_dirichlet",
    "poisson",
    "binomial",
    "dropout",
    "native_dropout",
    "alpha_dropout",
    "feature_dropout",
)
"""Operators whose results differ from call to call."""


def untraced(error: BaseException) -> str:
    """A sentence on a model that torch cannot follow."""
    chain = list(_chain(error))
    where = next((f" at {place}" for each in chain if (place := _place(each))), "")
    if asked := next((each for each in chain if _asks(each)), None):
        operator = _operator(asked)
        by = f" ({operator})" if operator else ""
        return (
            f"the model cannot be traced as a graph: what it does{where} depends on values that only a run knows{by}. "
            "Compute with tensors there, as torch.where does, or leave that part out of the model."
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
    operator = _operator(error)
    by = f" ({operator})" if operator and operator not in what else ""
    return f"the model cannot be traced as a graph{where}: {what[:300]}{by}. Compute it otherwise there."


def is_draw(target: object) -> bool:
    """Whether an operator of torch gives random numbers."""
    return str(target).removeprefix("aten.").partition(".")[0].strip("_") in DRAWS


def drawn(module: fx.GraphModule) -> str:
    """A sentence on random numbers that a model draws; empty if it draws none."""
    inside = [each.graph for each in module.modules() if isinstance(each, fx.GraphModule)]  # as under no_grad
    for node in (node for graph in inside for node in graph.nodes):
        if node.op == "call_function" and is_draw(node.target) and node.args[2:3] != (False,):
            name, place = str(node.target).rpartition(".")[0], place_in_trace(node.meta.get("stack_trace") or "")
            where = f" at {place}" if place else ""
            return (
                f"the model draws random numbers{where} ({name}), so that no file answers as it does. Take them as "
                "an input of the forward, or leave them out in evaluation mode."
            )
    return ""


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _asks(error: BaseException) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return not names.isdisjoint(DATA) or "data-dependent" in str(error)


def _operator(error: BaseException) -> str:
    """An operator of torch that the error names; ``.item()`` is what Python calls the read of a number."""
    found = re.search(r"\b(?:torch\.ops\.)?(aten[.:]+\w+(?:\.\w+)?)", str(error))
    if found is None:
        return "int(), .item(), if, or range" if _asks(error) else ""
    return "a number read from a tensor" if "_local_scalar_dense" in found[1] else found[1]


def _place(error: BaseException) -> str | None:
    return user_place(error) or place_in_trace(str(error))
