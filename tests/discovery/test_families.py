"""Every family is discovered, randomly zeroed by hand, shrunk and compared: exactly, in every mode, at other sizes."""

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import leanrnn
import tests.support.families_heads  # registers more families
import tests.support.families_more
import tests.support.families_newer  # noqa: F401
from leanrnn.running.compare import difference, run
from leanrnn.running.copies import copy_model
from tests.support.families import FAMILIES


def cast(example, dtype):
    return pytree.tree_map(lambda t: t.to(dtype) if t.is_floating_point() else t, example)


def zeroed(model: nn.Module, groups: leanrnn.Groups) -> tuple[nn.Module, dict[str, list[int]]]:
    """A copy with random components zeroed from ``layer.slices`` alone, and the components that stay."""
    model = copy_model(model)
    tensors, keep = dict(model.named_parameters()), {}
    generator = torch.Generator().manual_seed(1)
    for layer in groups:
        carried = {(s.tensor, s.axis) for s in layer.strips if s.role == "carried"}
        kept = max(1, int(torch.randint(layer.width, (), generator=generator)))
        order = torch.randperm(layer.width, generator=generator).tolist()
        keep[layer.name] = sorted(order[:kept])
        for name, axis, index in (s for k in order[kept:] for s in layer.slices(k)):
            if (name, axis) not in carried:
                tensors[name].data.select(axis, index).zero_()
    return model, keep


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("dtype", "allowed"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["float64", "float32"]
)
def test_shrunk_equals_zeroed(name, dtype, allowed):
    family = FAMILIES[name]()
    model, example = family.model.to(dtype), cast(family.example, dtype)
    model.train(dtype == torch.float64)
    groups = leanrnn.discover(model, example)
    assert groups.widths == family.widths
    zero, keep = zeroed(model, groups)
    small = leanrnn.shrink(zero, groups, keep=keep)
    assert type(small) is type(model)
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in model.parameters())
    for fused in (True, False):
        with _onednn(fused):
            assert difference(run(zero, example), run(small, example)) <= allowed
    for each in (model, zero, small):
        each.eval()
    assert difference(run(model, example), run(zero, example)) > 1e-3, "zeroing had no effect, so nothing was compared"
    assert difference(run(zero, example), run(small, example)) <= allowed


@pytest.mark.parametrize(
    "name", ["lstm_2", "bidirectional", "raw_matmul", "head_attention", "layer_norm", "dot_attention"]
)
def test_other_lengths_and_batches(name):
    family = FAMILIES[name]()
    model, example = family.model.double().eval(), cast(family.example, torch.float64)
    groups = leanrnn.discover(model, example)
    zero, keep = zeroed(model, groups)
    small = leanrnn.shrink(zero, groups, keep=keep)
    for steps, batch in ((1, 1), (7, 3), (2, 5)):
        other = pytree.tree_map(lambda t, s=steps, b=batch: torch.randn(s, b, *t.shape[2:], dtype=t.dtype), example)
        assert difference(run(zero, other), run(small, other)) <= 1e-12


@pytest.mark.parametrize("name", ["bidirectional", "li_gru", "tied_embedding", "encoder_decoder"])
def test_bfloat16(name):
    family = FAMILIES[name]()
    groups = leanrnn.discover(family.model.bfloat16(), cast(family.example, torch.bfloat16))
    assert groups.widths == family.widths


@pytest.mark.parametrize("name", ["lstm_3", "gru_cell", "residual_layers", "peephole"])
def test_gradients_are_those_of_the_zeroed_model(name):
    family = FAMILIES[name]()
    model, example = family.model.double(), cast(family.example, torch.float64)
    groups = leanrnn.discover(model, example)
    zero, keep = zeroed(model, groups)
    small = leanrnn.shrink(zero, groups, keep=keep)
    for each in (zero, small):
        first = pytree.tree_leaves(each(example))[0]
        first.square().sum().backward()
    positions = groups.kept_positions(groups.keep_mask(keep))
    large = dict(zero.named_parameters())
    for tensor, parameter in small.named_parameters():
        expected = large[tensor].grad
        for axis in range(expected.ndim):
            if (tensor, axis) in positions:
                expected = expected.index_select(axis, torch.as_tensor(positions[tensor, axis]))
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-10, atol=1e-12)


class _onednn:
    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        self.before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(self.enabled)

    def __exit__(self, *_: object) -> None:
        torch._C._set_mkldnn_enabled(self.before)
