"""The Trainer of Hugging Face: ``LeanCallback(example, budget=budget).join(trainer)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from leanrnn.errors import IntegrationError
from leanrnn.integrations.attached import Attached
from leanrnn.integrations.frameworks import TRANSFORMERS

__all__ = ["LeanCallback"]

_parts = TRANSFORMERS.package("transformers.trainer_callback")


class LeanCallback(_parts.TrainerCallback, _parts.ExportableState):  # type: ignore[misc, name-defined]  # as installed
    """Shrinks the model of a ``Trainer`` while it trains. ::

        LeanCallback(example, budget=leanrnn.Budget(mult_adds="25%")).join(trainer)
        trainer.train()

    Attaches to the trainer's optimizer, wraps the model again under DDP after every cut, adds widths and the part of
    the budget that is used (``leanrnn/...``) to what the trainer logs, and stands in its checkpoints:
    ``train(resume_from_checkpoint=True)`` takes them into a model of full width. The best model so far is forgotten
    with every cut, so that the one loaded in the end is of the final widths.

    Arguments:
        example: an input of the model, as ``leanrnn.discover`` takes it, such as a dict of a collated batch.
        module: the name of the part of the model that the example is for, if that is not the whole.
        compact_every: with a strength, steps from one cut of dead components to the next.
        copies: models with the same tensors, such as averages, that are cut along.
        options: what else ``leanrnn.discover`` and ``leanrnn.Sparsifier`` take: ``budget=``, ``strength=``, ``scope=``.
    """

    def __init__(
        self,
        example: Any,
        *,
        module: str = "",
        compact_every: int | None = None,
        copies: Sequence[nn.Module] = (),
        **options: Any,
    ) -> None:
        self.attached = Attached(example, module=module, compact_every=compact_every, copies=copies, **options)
        self._trainer: Any = None

    def join(self, trainer: Any) -> LeanCallback:
        """Become a callback of ``trainer``, the first one, so that all others see what this one logs."""
        if trainer.model_init is not None:
            raise IntegrationError("model_init builds the model anew in train(). Give the trainer a model instead.")
        if trainer.args.restore_callback_states_from_checkpoint:
            raise IntegrationError(
                "restore_callback_states_from_checkpoint builds callbacks anew. Leave it out: this one restores itself."
            )
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            raise IntegrationError(
                "DeepSpeed and FSDP keep parameters in pieces, which cannot be cut. Train with DDP, or shrink the "
                "model after the training."
            )
        self._trainer = trainer
        trainer.callback_handler.callbacks.insert(0, self)
        self.attached.watch(trainer.model, optimizers=lambda: [trainer.optimizer] if trainer.optimizer else [])
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer is there, and what a checkpoint had is loaded."""
        if self._trainer is None:
            raise IntegrationError("this callback needs the trainer. Call LeanCallback(...).join(trainer).")
        self.attached.leave()
        name = type(self).__name__
        if state.global_step and name in state.stateful_callbacks:
            self.attached.load_state_dict(state.stateful_callbacks[name]["attributes"].get("saved", {}))
        trainer = self._trainer
        self.attached.begin(
            trainer.model,
            [trainer.optimizer],
            steps=state.max_steps,
            replica=lambda: trainer.model_wrapped,
            after=lambda: _forget_best(trainer.state),
        )
        state.stateful_callbacks[name] = self.state()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float] | None = None, **more: Any) -> None:
        """What was added here is seen by the callbacks behind, which write it."""
        if isinstance(logs, dict) and "loss" in logs and self.attached.sparsifier is not None:
            figures = self.attached.sparsifier.figures()
            logs |= {f"leanrnn/{name}": value for name, value in figures.items() if name != "step"}
            state.log_history[-1].update(logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The best model is loaded, if it was asked for."""
        self.attached.end()

    def state(self) -> dict[str, Any]:
        """What trainer_state.json has of this callback."""
        return {"args": {}, "attributes": {"saved": self.attached.state_dict()}}


def _forget_best(state: Any) -> None:
    state.best_metric = state.best_global_step = state.best_model_checkpoint = None
