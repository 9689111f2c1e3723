"""Products of matrices with half of the bits while training."""

from __future__ import annotations

import torch

from leanrnn.errors import RunError
from leanrnn.lab.sparse_settings import Precision

__all__ = ["has_bfloat16", "products"]


def has_bfloat16(device: torch.device) -> bool:
    """Whether its products may have half of the bits. Of processors only those that oneDNN says it for (on x86, with
    AVX-512): on others it fails to make an LSTM. ::

        has_bfloat16(torch.device("cpu"))
    """
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def products(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which products of matrices, recurrent layers among them, have this precision. Weights, what is added
    to them and what is outside stay in single precision. ::

        with products("bfloat16", words.device):
            scores, state = model(words, state)
    """
    if precision == "bfloat16" and not has_bfloat16(device):
        raise RunError("this processor has no products in bfloat16. Leave the setting precision at float32.")
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
