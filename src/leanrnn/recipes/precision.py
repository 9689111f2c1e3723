"""Products of matrices with half of the bits while training."""

from __future__ import annotations

import torch

from leanrnn.recipes.config import Precision

__all__ = ["products"]


def products(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which products of matrices, recurrent layers among them, have this precision. Weights, what is added
    to them and what is outside stay in single precision. ::

        with products("bfloat16", words.device):
            scores, state = model(words, state)
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
