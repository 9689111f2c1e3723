"""Without a GPU: the meta device, and a second device of fake tensors on which reading a number back raises."""

import contextlib

import pytest
import torch
from torch._subclasses import FakeTensorMode

import leanrnn
import tests.support.families_heads  # registers more families
import tests.support.families_more
import tests.support.families_newer  # noqa: F401
from leanrnn.discovery.labels import Factor, Value
from leanrnn.discovery.rules import Call, find
from leanrnn.discovery.ties import Ties
from tests.support.families import FAMILIES, H

# Lengths of packed sequences have to be real numbers, and masks of them are on the CPU.
NEEDS_NUMBERS = {"packed_sorted", "packed_unsorted", "last_by_gather", "last_by_index", "masked_mean", "masked_max"}
# Found by the proof, for which there is nothing to compare here.
NEEDS_PROOF = {"state_directions_joined_by_slices", "attention_scaled_by_the_size_of_a_head"}


def device(name: str):
    """Everything built inside lives on that device; ``lazy`` is a backend this build can name but not run."""
    stack = contextlib.ExitStack()
    if name == "lazy":
        stack.enter_context(FakeTensorMode())
    stack.enter_context(torch.device(name))
    return stack


@pytest.mark.parametrize("where", ["meta", "lazy"])
@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in NEEDS_NUMBERS | NEEDS_PROOF])
def test_discovery_follows_the_device_of_the_model(name, where):
    with device(where):
        family = FAMILIES[name]()
        assert leanrnn.discover(family.model, family.example, prove=False).widths == family.widths


@pytest.mark.parametrize("mode", ["gradient", "proximal", "loss"])
def test_a_training_step_reads_no_number_back_and_stays_on_its_device(mode):
    with device("lazy"):
        model = FAMILIES["lstm_2"]().model
        example = torch.randn(4, 2, 5)
        groups = leanrnn.discover(model, example, prove=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        sparsifier = leanrnn.Sparsifier(groups, strength=1e-3, threshold=1e-4, mode=mode).attach(optimizer)
        for _ in range(3):
            loss = model(example).square().mean()
            (loss + sparsifier.loss() if mode == "loss" else loss).backward()
            optimizer.step()
            optimizer.zero_grad()
        assert all(p.device.type == "lazy" for p in model.parameters())


def fused_cell(operator, arguments, shapes) -> list:
    """Labels of a fused cell's results, and the ties it makes."""
    ties = Ties()
    labelled = {
        name: Value(shape, tuple(Factor.on(a, ties.fresh(n), 2) for a, n in enumerate(shape)))
        for name, shape in arguments.items()
    }
    rule = find(operator).rule
    return [ties, labelled, rule(Call(ties, operator, labelled, shapes))]


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_fused_cells_of_cuda_tie_what_the_plain_cell_ties(kind):
    gates = 4 if kind == "lstm" else 3
    state, wide = (2, H), (2, gates * H)
    operator = getattr(torch.ops.aten, f"_thnn_fused_{kind}_cell").default
    names = {"input_gates": wide, "hidden_gates": wide, "cx" if kind == "lstm" else "hx": state}
    biases = {"input_bias": (gates * H,), "hidden_bias": (gates * H,)}
    ties, given, results = fused_cell(operator, names | biases, [state, state, wide][: 3 if kind == "lstm" else 2])
    linked = {}
    for a, b, _ in ties.tied:
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            linked.setdefault(x, set()).add(y)
            linked.setdefault(y, set()).add(x)
    reached, todo = set(), [int(results[0].on(1)[0].labels[2])]
    while todo:
        label = todo.pop()
        if label not in reached:
            reached.add(label)
            todo += linked.get(label, ())
    for name, value in given.items():
        (factor,) = value.on(value.ndim - 1)
        gate_rows = [2 + H * g for g in range(len(factor.labels) // H)]
        mine = [i for i, label in enumerate(factor.labels.tolist()) if label in reached]
        assert mine == gate_rows, name
