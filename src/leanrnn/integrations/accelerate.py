"""Accelerate: ``attach(accelerator, model, optimizer, example, budget=budget, steps=steps)`` after ``prepare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from leanrnn.integrations.attached import Attached
from leanrnn.integrations.frameworks import ACCELERATE

__all__ = ["attach"]


def attach(
    accelerator: Any,
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    example: Any,
    *,
    module: str = "",
    steps: int | None = None,
    compact_every: int | None = None,
    copies: Sequence[nn.Module] = (),
    **options: Any,
) -> Attached:
    """Shrink a prepared model while it trains. ::

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        lean = attach(accelerator, model, optimizer, example, budget=budget, steps=epochs * len(loader))
        ...                                       # accelerator.save_state() and load_state() as ever
        lean.end()

    Registers for checkpointing, so that ``load_state`` takes checkpoints of cut models into one of full width, wraps
    the model again under DDP after every cut, and writes widths and the part of the budget that is used
    (``leanrnn/...``) to the trackers. ``lean.end()`` lets go of the optimizer, and warns if nothing was removed.

    Arguments:
        example: an input of the model, as ``leanrnn.discover`` takes it.
        module: the name of the part of the model that the example is for, if that is not the whole.
        steps: to a budget, how many optimizer steps the whole training has.
        compact_every: with a strength, steps from one cut of dead components to the next.
        copies: models with the same tensors, such as averages, that are cut along.
        options: what else ``leanrnn.discover`` and ``leanrnn.Sparsifier`` take: ``budget=``, ``strength=``, ``scope=``.
    """
    ACCELERATE.check()
    attached = Attached(example, module=module, steps=steps, compact_every=compact_every, copies=copies, **options)
    inner = accelerator.unwrap_model(model)
    attached.watch(inner)

    def write(figures: Mapping[str, float]) -> None:
        named = {f"leanrnn/{name}": value for name, value in figures.items() if name != "step"}
        accelerator.log(named, step=int(figures["step"]))

    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    attached.begin(inner, optimizers, replica=lambda: model, log=write)
    accelerator.register_for_checkpointing(attached)
    return attached
