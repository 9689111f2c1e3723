"""Module attributes and module classes after a cut: what torch's own modules remember besides their tensors.

Where a cut leaves something torch's module cannot express (unequal widths, a norm over fewer components), the module
object stays and only its class changes, as ``torch.nn.utils.parametrize`` does: whoever holds the module keeps it.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from torch import Tensor, nn
from torch.nn.utils import parametrize

from leanrnn import layers
from leanrnn.errors import ShrinkError

__all__ = ["Kept", "plain_", "refit_"]

Kept = Callable[[nn.Module, str, int], tuple[int, Sequence[int]] | None]
"""Of a module's tensor and axis: the length before the cut and the positions that stay, or None if nothing was cut."""

# Attribute, and the tensor and axis whose length it is.
_LENGTHS: dict[type[nn.Module], tuple[tuple[str, str, int], ...]] = {
    nn.Linear: (("out_features", "weight", 0), ("in_features", "weight", 1)),
    nn.Bilinear: (("out_features", "weight", 0), ("in1_features", "weight", 1), ("in2_features", "weight", 2)),
    nn.Embedding: (("num_embeddings", "weight", 0), ("embedding_dim", "weight", 1)),
    nn.EmbeddingBag: (("num_embeddings", "weight", 0), ("embedding_dim", "weight", 1)),
    nn.PReLU: (("num_parameters", "weight", 0),),
    nn.modules.batchnorm._NormBase: (("num_features", "running_mean", 0), ("num_features", "weight", 0)),
}


def refit_(module: nn.Module, kept: Kept, plain: bool) -> None:
    """Bring the attributes and, where needed, the class of ``module`` in line with its cut tensors; a module with a
    method ``after_cut`` does so itself."""
    hook = getattr(module, "after_cut", None)
    if callable(hook):
        return cast(None, hook(functools.partial(kept, module), plain))
    for cls in type(module).__mro__:
        if cls in _SPECIAL:
            return _SPECIAL[cls](module, kept, plain)
        if cls in _LENGTHS:
            return _set_lengths(module, _LENGTHS[cls])


def plain_(module: nn.Module) -> None:
    """Turn a recurrent module of equal widths, or a cell, back into torch's own; it forgets former widths."""
    equal = isinstance(module, layers.Cell) or (isinstance(module, layers.Recurrent) and module.equal)
    if equal:
        module.__class__ = _origin(type(module), module)
        vars(module).pop("former", None)
        if isinstance(module, nn.RNNBase):
            module._init_flat_weights()  # cuDNN wants all layers in one block again


def _set_lengths(module: nn.Module, lengths: tuple[tuple[str, str, int], ...]) -> None:
    for attribute, name, axis in lengths:
        tensor = getattr(module, name, None)
        if isinstance(tensor, Tensor):
            setattr(module, attribute, tensor.size(axis))


def _recurrent(module: Any, kept: Kept, plain: bool) -> None:
    cls = _variant(type(module), layers.RECURRENT[module.mode])
    if cls is None:
        _keep_class(module)
        return
    module.__class__ = cls
    for index, slot in enumerate(module.slots):
        state = kept(module, f"weight_hh{slot}", 1) or _first_gate(module, kept(module, f"weight_ih{slot}", 0))
        cell = kept(module, f"weight_hr{slot}", 1) if module.proj_size else state
        for part, cut in enumerate((state, cell)[: module.parts]):
            if cut is not None:
                module.accept(part, index, *cut)
    module.refit_()
    module._init_flat_weights()
    if plain:
        plain_(module)


def _first_gate(module: Any, rows: tuple[int, Sequence[int]] | None) -> tuple[int, Sequence[int]] | None:
    """Which units stay, by the rows of one gate, where the recurrent weight is not the module's own."""
    if rows is None or module.proj_size:
        return None
    width = rows[0] // layers.GATES[module.mode]
    return width, [i for i in rows[1] if i < width]


def _keep_class(module: nn.RNNBase) -> None:
    """A subclass whose forward does not go through ``super()`` has to run as it is, so its widths must agree."""
    if not layers.equal_widths(module):
        raise ShrinkError(
            f"the forward of {type(module).__name__} calls torch's operator for all layers at once, which takes one "
            f"width, and its layers would be {layers.widths_of(module, 0)} wide. Keep equal numbers of "
            "components in its layers, or call super().forward in it."
        )
    module.input_size = getattr(module, "weight_ih_l0").size(1)  # noqa: B009  # not declared in torch's class
    module.hidden_size = layers.widths_of(module, 1 if module.mode == "LSTM" else 0)[0]
    module.proj_size = layers.widths_of(module, 0)[0] if module.proj_size else 0
    module._init_flat_weights()


def _cell(module: Any, kept: Kept, plain: bool) -> None:
    plain_class = next(cls for cls in type(module).__mro__ if cls in _CELLS)
    cls = None if plain else _variant(type(module), _CELLS[plain_class])
    module.__class__ = cls or type(module)
    module.input_size, module.hidden_size = module.weight_ih.size(1), module.weight_hh.size(1)
    cut = kept(module, "weight_hh", 1)
    if cut is not None and isinstance(module, layers.Cell):
        module.accept(*cut)
    if plain:
        plain_(module)


def _conv(module: Any, kept: Kept, plain: bool) -> None:
    first, second = module.weight.size(0), module.weight.size(1)
    if not module.transposed and module.groups == module.in_channels > 1:
        # Depthwise: every input channel has its own filters, so channels and groups leave together.
        module.groups = first // (module.out_channels // module.groups)
    outer, inner = first, second * module.groups
    module.in_channels, module.out_channels = (outer, inner) if module.transposed else (inner, outer)


def _whole_norm(module: Any, kept: Kept, plain: bool) -> None:
    ours = layers.LayerNorm if isinstance(module, nn.LayerNorm) else layers.RMSNorm
    full = vars(module).get("full_width", math.prod(module.normalized_shape))
    module.normalized_shape = tuple(module.weight.shape)
    module.__class__ = _variant(type(module), ours) or type(module)
    module.full_width = full


def _group_norm(module: Any, kept: Kept, plain: bool) -> None:
    cut = kept(module, "weight", 0)
    if cut is None:
        return
    full = vars(module).get("full_count", module.num_channels // module.num_groups)
    counts = vars(module).get("counts", [full] * module.num_groups)
    members = np.repeat(np.arange(len(counts)), counts)[np.asarray(cut[1])]
    counts = np.unique(members, return_counts=True)[1].tolist()
    module.num_groups, module.num_channels = len(counts), len(members)
    if set(counts) != {full}:
        module.__class__ = _variant(type(module), layers.GroupNorm) or type(module)
        module.full_count, module.counts = full, counts


def _attention(module: Any, kept: Kept, plain: bool) -> None:
    packed = module.in_proj_weight
    inputs = [packed] * 3 if packed is not None else [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    before = vars(module).get("scale", (module.embed_dim // module.num_heads) ** -0.5)
    module.embed_dim, module.kdim, module.vdim = (weight.size(1) for weight in inputs)
    module.head_dim = module.out_proj.weight.size(1) // module.num_heads
    cls = _variant(type(module), layers.MultiheadAttention)
    if cls is not None:
        module.__class__, module.scale = cls, before
        # torch's encoder layer takes all weights to itself, and one width with them, unless told that they differ.
        module._qkv_same_embed_dim = False


_CELLS: dict[type[nn.Module], type[nn.Module]] = {
    nn.LSTMCell: layers.LSTMCell,
    nn.GRUCell: layers.GRUCell,
    nn.RNNCell: layers.RNNCell,
}
_SPECIAL: dict[type[nn.Module], Callable[[Any, Kept, bool], None]] = {
    nn.RNNBase: _recurrent,
    **dict.fromkeys(_CELLS, _cell),
    nn.modules.conv._ConvNd: _conv,
    nn.LayerNorm: _whole_norm,
    nn.RMSNorm: _whole_norm,
    nn.GroupNorm: _group_norm,
    nn.MultiheadAttention: _attention,
}


def _variant(cls: type[nn.Module], ours: type[nn.Module]) -> type[nn.Module] | None:
    """The class that is ``cls`` but runs our forward; None if the forward of ``cls`` does not lead to it."""
    if issubclass(cls, ours):
        return cls
    if cls.__module__.startswith("torch.nn.modules."):
        return ours
    if cls.__module__ == parametrize.__name__:
        # The class that parametrize made for this one module: its properties, over our class.
        base = _variant(cls.__bases__[0], ours)
        names = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        return None if base is None else type(cls.__name__, (base,), {**names, "_leanrnn_origin": cls})
    return _mixed(cast(Any, cls), cast(Any, ours))


@functools.cache
def _mixed(cls: Any, ours: Any) -> type[nn.Module] | None:
    """A user's subclass with our class behind it, where its ``super().forward`` then leads."""
    bases = [base for base in cls.__mro__ if "forward" in vars(base) and not base.__module__.startswith("torch.")]
    if not all(_delegates(vars(base)["forward"]) for base in bases):
        return None
    return type(cls.__name__, (cls, ours), {"__module__": cls.__module__, "_leanrnn_origin": cls})


def _delegates(forward: Any) -> bool:
    """Whether a forward calls ``super()``, rather than torch's operators."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and "super" in code.co_names


def _origin(cls: type[nn.Module], module: nn.Module) -> type[nn.Module]:
    """The class a module had before it took one of ours."""
    if "_leanrnn_origin" in vars(cls):
        return cast(type[nn.Module], vars(cls)["_leanrnn_origin"])
    if isinstance(module, nn.RNNBase):
        return layers.PLAIN[module.mode]
    return next(base for base in cls.__mro__ if base in _CELLS)
