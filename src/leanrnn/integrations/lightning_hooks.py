"""The callback for Lightning, whatever name the framework was imported by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from leanrnn.errors import IntegrationError
from leanrnn.integrations.attached import Attached, averages

__all__ = ["Hooks", "forget_best"]


class Hooks:
    """Shrinks a ``LightningModule`` while it trains. ::

        trainer = Trainer(callbacks=[LeanCallback(example, budget=leanrnn.Budget(mult_adds="25%"))])

    Attaches to the optimizers of the module, wraps it again under DDP after every cut, cuts the averages of
    ``EMAWeightAveraging`` and ``StochasticWeightAveraging`` along, writes widths and the part of the budget that is
    used to the loggers (``leanrnn/...``) and to the progress bar, and stands in checkpoints. ``fit(ckpt_path=...)``,
    ``test`` and ``predict`` take checkpoints of any widths into a module of full width. What ``ModelCheckpoint`` and
    ``EarlyStopping`` hold for the best so far is forgotten with every cut: in the end it is of the final widths.

    Arguments:
        example: an input of the module, as ``leanrnn.discover`` takes it; its ``example_input_array`` if there is none.
        module: the name of the part that the example is for, if the module has no ``forward`` of its own.
        steps: optimizer steps of the whole training, if the trainer cannot tell.
        compact_every: with a strength, steps from one cut of dead components to the next.
        copies: further models with the same tensors.
        options: what else ``leanrnn.discover`` and ``leanrnn.Sparsifier`` take: ``budget=``, ``strength=``, ``scope=``.
    """

    def __init__(
        self,
        example: Any = None,
        *,
        module: str = "",
        steps: int | None = None,
        compact_every: int | None = None,
        copies: Sequence[nn.Module] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        own = {"module": module, "steps": steps, "compact_every": compact_every, "copies": copies}
        self._settings = {"example": example} | own | options
        self.attached = Attached(**self._settings)
        self._watching: RemovableHandle | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of: frameworks copy callbacks, and keep them among the settings of a module."""
        return dict(self._settings)

    def __setstate__(self, settings: dict[str, Any]) -> None:
        Hooks.__init__(self, **settings)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Before weights are loaded, and before there are optimizers."""
        if self.attached.example is None:
            self.attached.example = getattr(pl_module, "example_input_array", None)
        if self._watching is not None:
            self._watching.remove()

        def optimizers() -> list[Optimizer]:
            return list(trainer.optimizers) if trainer.training else []

        self._watching = self.attached.watch(pl_module, lambda: averages(trainer.callbacks, pl_module), optimizers)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Optimizers are there; their state and that of loops comes next."""
        if trainer.strategy.restore_checkpoint_after_setup:
            raise IntegrationError(
                f"{type(trainer.strategy).__name__} keeps parameters in pieces, which cannot be cut. "
                'Train with strategy="ddp", or shrink the model after the training.'
            )
        self.attached.leave()
        if not trainer.optimizers:
            raise IntegrationError("the module has no optimizer: configure_optimizers returned none.")

        def write(figures: Mapping[str, float]) -> None:
            named = {f"leanrnn/{name}": value for name, value in figures.items() if name != "step"}
            for logger in trainer.loggers:
                logger.log_metrics(named, step=int(figures["step"]))

        self.attached.begin(
            pl_module,
            trainer.optimizers,
            steps=trainer.estimated_stepping_batches,
            copies=averages(trainer.callbacks, pl_module),
            replica=lambda: trainer.strategy.model,
            after=lambda: forget_best(trainer.callbacks),
            log=write,
        )

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """How much of the budget is used, or how wide the layers are, in the progress bar."""
        if self.attached.sparsifier is None:
            return
        figures = self.attached.sparsifier.figures()
        used = {name: value for name, value in figures.items() if name.startswith("used/")}
        shown = used or {"width": sum(value for name, value in figures.items() if name.endswith("/width"))}
        values = {f"lean_{name.removeprefix('used/')}": value for name, value in shown.items()}
        pl_module.log_dict(values, prog_bar=True, logger=False)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """The last checkpoint is written."""
        self.attached.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The training broke off; a checkpoint can go on."""
        self.attached.leave()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """The module is its owner's again."""
        if self._watching is not None:
            self._watching.remove()
            self._watching = None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has of this callback."""
        return self.attached.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What a checkpoint had; the sparsifier is built later."""
        self.attached.load_state_dict(state_dict)


def forget_best(callbacks: Iterable[Any]) -> None:
    """Let callbacks that look for the best model begin anew: what they have is of a larger one. ::

    forget_best(trainer.callbacks)
    """
    for callback in callbacks:
        if getattr(callback, "monitor", None) and hasattr(callback, "best_k_models"):  # ModelCheckpoint; the files stay
            callback.best_k_models.clear()
            callback.best_model_score, callback.best_model_path, callback.kth_best_model_path = None, "", ""
        elif hasattr(callback, "best_score") and hasattr(callback, "wait_count"):  # EarlyStopping
            worst = float("inf") if callback.mode == "min" else -float("inf")
            callback.best_score, callback.wait_count = torch.tensor(worst), 0
