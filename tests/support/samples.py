"""Torch's own sample inputs of its operators, as cases for brute force."""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.support.trial import Case

__all__ = ["operators", "samples"]

LITERAL = """
    view view_copy reshape reshape_as view_as unflatten expand expand_copy expand_as broadcast_to narrow narrow_copy
    split split_with_sizes split_with_sizes_copy unsafe_split tensor_split hsplit vsplit dsplit __getitem__
    select_scatter slice_scatter nn.functional.multi_head_attention_forward nn.functional.layer_norm native_layer_norm
    nn.functional.rms_norm nn.functional.group_norm native_group_norm nn.functional.instance_norm nn.functional.pad
    nn.functional.cross_entropy nn.functional.multilabel_soft_margin_loss cross istft linalg.vander corrcoef
""".split()
"""Operators that are given sizes or positions as numbers, or make numbers of them (a mean: a sum divided by a length).
Where these follow the shape of a tensor, test_rules.py has them."""
SKIPPED = """
    empty empty_like new_empty new_empty_strided empty_strided empty_permuted
    jiterator_unary jiterator_binary jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref
    jiterator_2inputs_2outputs to_sparse _chunk_cat
""".split()
"""Operators whose results are nothing that could be compared, that need another device, or that only sharded training
uses."""
LARGEST = 400
"""Samples with more numbers than this say nothing that smaller ones do not."""


def operators() -> list[Any]:
    """Torch's database of operators with sample inputs."""
    if "expecttest" not in sys.modules:
        # Torch's test tools want this package for a test runner that is not used here.
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [info for info in op_db if info.name not in SKIPPED]


def samples(info: Any, most: int) -> Iterator[Case]:
    """Up to ``most`` small samples of one operator."""
    dtype = next((d for d in (torch.float64, torch.complex128, torch.int64, torch.bool) if d in info.dtypes), None)
    if dtype is None:
        return
    name = f"{info.name}.{info.variant_test_name}".rstrip(".")
    yield from islice(filter(None, (_case(info, name, s) for s in info.sample_inputs("cpu", dtype))), most)


def _case(info: Any, name: str, sample: Any) -> Case | None:
    flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, Tensor)]
    tensors = tuple(flat[i].detach() for i in places)
    if any(t.layout != torch.strided or t.numel() == 0 for t in tensors) or sum(t.numel() for t in tensors) > LARGEST:
        return None

    def call(*given: Tensor) -> Any:
        filled = list(flat)
        for i, tensor in zip(places, given, strict=True):
            filled[i] = tensor
        first, args, kwargs = tree_unflatten(filled, spec)
        return info.op(first, *args, **kwargs)

    shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
    plain = [leaf for leaf in flat if not isinstance(leaf, Tensor)]
    return Case(f"{name}[{shapes}; {plain}]", call, tensors, literal=info.name in LITERAL)
