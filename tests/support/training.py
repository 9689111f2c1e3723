"""Short training runs of the small language model: with the sparsifier, and the same written out by hand."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from leanrnn.penalties.group_lasso import GroupLasso
from leanrnn.sparsify.sparsifier import Sparsifier
from tests.support.handmade import language

STRENGTH, TAU = 0.05, 0.02
OPTIMIZERS = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, **k),
    "momentum": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, **k),
    "nesterov": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=0.01, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=0.01, **k),
    "rmsprop": lambda p, **k: torch.optim.RMSprop(p, lr=0.01, **k),
    "adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.01, **k),
}


def batches(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 7, (4, 3), generator=generator) for _ in range(count)]


def data_loss(model, tokens):
    return nn.functional.cross_entropy(model(tokens)[0][:-1].flatten(0, 1), tokens[1:].flatten())


def threshold_by_hand(model, tau=TAU):
    for name, p in model.named_parameters():
        if "weight" in name and "embedding" not in name:
            p.data[p.data.abs() < tau] = 0


def by_hand(make, steps=6, clip=None, **sizes):
    """The paper's way: penalty in the loss, clipping of the sum, threshold after the step."""
    model, groups = language(**sizes)
    optimizer, penalty = make(model.parameters()), GroupLasso(groups)
    for tokens in batches(steps):
        optimizer.zero_grad()
        (data_loss(model, tokens) + STRENGTH * penalty.value()).backward()
        if clip is not None:
            clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        threshold_by_hand(model)
    return model


def hooked(make, steps=6, **settings):
    model, groups = language()
    optimizer = make(model.parameters())
    sparsifier = Sparsifier(groups, **{"strength": STRENGTH, "threshold": TAU} | settings).attach(optimizer)
    for tokens in batches(steps):
        optimizer.zero_grad()
        data_loss(model, tokens).backward()
        optimizer.step()
    return model, sparsifier


def same(one, two, tolerance=1e-10):
    for (name, p), q in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")
    return True
