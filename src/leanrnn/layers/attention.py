"""Multi-head attention whose inputs and outputs are narrower than its heads are together.

torch's module has one number, ``embed_dim``, for the width of the query, of all heads together and of the result. After
a cut these are three.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["MultiheadAttention"]


class MultiheadAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention that takes all widths from its weights; ``scale`` is that of the heads as they were."""

    scale: float

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention and, if wanted, its weights, as torch's module gives them; a mask must come with ``is_causal``."""
        batched = query.dim() == 3
        time = 1 if self.batch_first and batched else 0
        q, k, v = (t.transpose(0, 1) if time else t if batched else t.unsqueeze(1) for t in (query, key, value))
        q, k, v = (F.linear(x, w, b) for x, (w, b) in zip((q, k, v), self._projections(), strict=True))
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (torch.cat([t, b.expand(1, t.size(1), -1)]) for t, b in ((k, self.bias_k), (v, self.bias_v)))
        q, k, v = (self._split(t) for t in (q, k, v))
        if self.add_zero_attn:
            k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
        weights = torch.softmax(
            q @ k.transpose(-1, -2) * self.scale + self._mask(q, k, attn_mask, key_padding_mask), -1
        )
        mixed = F.dropout(weights, self.dropout, self.training) @ v
        out = self.out_proj(mixed.permute(2, 0, 1, 3).flatten(2))
        out = out.transpose(0, 1) if time else out if batched else out.squeeze(1)
        if not need_weights:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights if batched else weights.squeeze(0)

    def _projections(self) -> list[tuple[Tensor, Tensor | None]]:
        packed = cast("Tensor | None", self.in_proj_weight)
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if packed is None else packed.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return list(zip(weights, biases, strict=True))

    def _split(self, x: Tensor) -> Tensor:
        """(time, batch, width) to (batch, head, time, width of a head)."""
        return x.reshape(*x.shape[:2], self.num_heads, -1).permute(1, 2, 0, 3)

    def _mask(self, q: Tensor, k: Tensor, attn_mask: Tensor | None, padding: Tensor | None) -> Tensor:
        """What is added to the scores; what was put behind the keys (a bias, a zero) is always seen."""
        total = q.new_zeros(())
        if attn_mask is not None:
            mask = _added(attn_mask, q.dtype)
            total = total + (mask if mask.dim() == 2 else mask.view(-1, self.num_heads, *mask.shape[1:]))
        if padding is not None:
            total = total + _added(padding if padding.dim() == 2 else padding[None], q.dtype)[:, None, None]
        behind = k.size(-2) - total.size(-1) if total.dim() else 0
        return F.pad(total, (0, behind)) if behind else total


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of numbers; of a mask of truths, the true places are left out."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))
