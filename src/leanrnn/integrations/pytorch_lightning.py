"""Lightning, imported as ``pytorch_lightning``: ``Trainer(callbacks=[LeanCallback(example, budget=budget)])``."""

from __future__ import annotations

from leanrnn.integrations.frameworks import PYTORCH_LIGHTNING
from leanrnn.integrations.lightning_hooks import Hooks

__all__ = ["LeanCallback"]

_callbacks = PYTORCH_LIGHTNING.package("pytorch_lightning.callbacks")


class LeanCallback(Hooks, _callbacks.Callback):  # type: ignore[misc, name-defined]  # there only where it is installed
    __doc__ = Hooks.__doc__
