"""The sparsifier under autocast and a gradient scaler."""

import pytest
import torch
from torch import nn

from leanrnn.penalties.group_lasso import GroupLasso
from leanrnn.sparsify.sparsifier import Sparsifier
from tests.support.handmade import language
from tests.support.training import OPTIMIZERS, STRENGTH, TAU, batches, by_hand, data_loss, same


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_grad_scaler(fused, unscale):
    def make(parameters):
        return torch.optim.Adam(parameters, lr=0.01, fused=fused)

    model, groups = language()
    optimizer, scaler = make(model.parameters()), torch.amp.GradScaler("cpu", init_scale=2.0**10)
    Sparsifier(groups, strength=STRENGTH, threshold=TAU).attach(optimizer)
    for tokens in batches(6):
        optimizer.zero_grad()
        scaler.scale(data_loss(model, tokens)).backward()
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    # The scaler multiplies with a float32 reciprocal.
    assert same(model, by_hand(make), tolerance=1e-6)


@pytest.mark.parametrize("mode", ["gradient", "proximal"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_step_the_scaler_skips_changes_nothing(fused, mode):
    model, groups = language()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    Sparsifier(groups, strength=STRENGTH, threshold=None, mode=mode).attach(optimizer)
    scaler = torch.amp.GradScaler("cpu")
    before = [p.detach().clone() for p in model.parameters()]
    scaler.scale(data_loss(model, batches(1)[0])).backward()
    model.head.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


def test_autocast_leaves_penalty_in_the_type_of_the_weights():
    model, groups = language(dtype=torch.float32, kind=nn.GRU)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    Sparsifier(groups, strength=STRENGTH, threshold=TAU).attach(optimizer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = data_loss(model, batches(1)[0])
    loss.backward()
    plain = model.head.weight.grad.clone()
    expected = language(dtype=torch.float32, kind=nn.GRU)[1]
    GroupLasso(expected).add_gradient_(STRENGTH)
    optimizer.step()
    torch.testing.assert_close(model.head.weight.grad, plain + expected.model.head.weight.grad)
