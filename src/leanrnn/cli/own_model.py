"""Training a model of one's own from the command line: data and loss by their names, and a line an epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leanrnn.cli.factory import find
from leanrnn.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor, nn

    import leanrnn

__all__ = ["Training"]

OF_CLASSES = ("cross_entropy", "nll_loss")


@dataclass(frozen=True)
class Training:
    """What ``leanrnn shrink --data`` was told."""

    data: str
    valid: str | None
    loss: str
    epochs: int
    rate: float
    teacher: float

    def run(
        self, model: nn.Module, groups: leanrnn.Groups, budget: leanrnn.Budget, *, quiet: bool
    ) -> tuple[nn.Module, dict[str, float], dict[str, float]]:
        """Train within the budget: the smaller model, and the loss on the batches to judge by, if there are any, before
        and after."""
        from leanrnn.lab.own_model import Epoch, fit, judge

        self._check()
        data, loss = find(self.data), _loss(self.loss)
        valid = find(self.valid) if self.valid is not None else None
        before = _judged(valid and judge(model, valid, loss))

        def told(epoch: Epoch) -> None:
            widths = " + ".join(map(str, epoch.widths.values()))
            print(
                f"epoch {epoch.number:3} of {self.epochs}  loss {epoch.loss:8.4f}  {epoch.phase:10} widths {widths}  "
                f"{epoch.seconds:.0f} s", flush=True,
            )  # fmt: skip

        small = fit(
            model, groups, data, loss, budget=budget, epochs=self.epochs, rate=self.rate, teacher=self.teacher,
            told=(lambda epoch: None) if quiet else told,
        )  # fmt: skip
        return small, before, _judged(valid and judge(small, valid, loss))

    def _check(self) -> None:
        if self.epochs < 1:
            raise ConfigError(f"epochs is {self.epochs}. Give at least 1.")
        if not self.rate > 0:
            raise ConfigError(f"rate is {self.rate:g}. Give a number above 0.")
        if not 0 <= self.teacher <= 1:
            raise ConfigError(f"teacher is {self.teacher:g}. Give a part of the loss, from 0 to 1.")


def _judged(loss: float | None) -> dict[str, float]:
    return {} if loss is None else {"loss": round(loss, 4)}


def _loss(text: str) -> Callable[[Any, Any], Tensor]:
    """A loss by its name; one of classes takes results of any shape, with the classes last."""
    import torch.nn.functional as functions

    if ":" in text:
        return find(text)  # type: ignore[return-value]  # whatever the user wrote
    found: Callable[..., Tensor] | None = getattr(functions, text, None)
    if found is None:
        raise ConfigError(
            f"torch.nn.functional has no loss {text!r}. Name one it has, such as cross_entropy or mse_loss, or "
            "MODULE:FUNCTION."
        )
    if text not in OF_CLASSES:
        return found

    def by_position(scores: Tensor, target: Tensor) -> Tensor:
        last = scores.dim() == target.dim() + 1 and scores.shape[:-1] == target.shape
        return found(scores.flatten(0, -2), target.flatten()) if last else found(scores, target)

    return by_position
