"""Soft targets without a teacher: words whose vectors are alike are half right."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["similar_words"]


@torch.no_grad()
def similar_words(embedding: Tensor, words: Tensor) -> Tensor:
    """Scores of all words by how alike their vectors are to that of the wanted word (Inan, Khosravi, Socher 2017). ::

        soft = leanrnn.similar_words(model.embedding.weight, wanted)
        loss = leanrnn.distil(scores, soft, loss, weight=0.5, temperature=20.0)

    ``embedding`` has a row for every class, ``words`` the classes of the labels. It helps most where embedding and
    output share their matrix, at temperatures of 10 to 20.
    """
    return embedding[words] @ embedding.t()
