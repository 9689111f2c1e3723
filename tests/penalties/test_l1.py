"""L1 against its formulas."""

import pytest
import torch
from torch import nn

from leanrnn.errors import GroupsError
from leanrnn.penalties.l1 import L1
from tests.support.handmade import language


def test_value_and_exact_proximal_step():
    model, groups = language()
    penalty = L1(groups)
    weights = [p for n, p in model.named_parameters() if "weight" in n and not n.startswith("embedding")]
    assert abs(penalty.value() - sum(p.abs().sum() for p in weights)) < 1e-10 and len(penalty.norms()) == 5
    penalty.add_gradient_(0.5)
    for p in weights:
        torch.testing.assert_close(p.grad, 0.5 * p.detach().sign())
    soft = [nn.functional.softshrink(p.detach(), 0.1) for p in weights]
    penalty.proximal_(0.1)
    for p, want in zip(weights, soft, strict=True):
        torch.testing.assert_close(p.detach(), want, rtol=0, atol=1e-15)


def test_takes_patterns_and_biases():
    _, groups = language()
    assert set(L1(groups, parameters=["head.*"]).norms()) == {"head.weight"}
    assert set(L1(groups, parameters=["head.*"], biases=True).norms()) == {"head.weight", "head.bias"}
    assert len(L1(groups, biases=True).norms()) == 9
    with pytest.raises(GroupsError, match="no parameter matches"):
        L1(groups, parameters=["nothing.*"])
