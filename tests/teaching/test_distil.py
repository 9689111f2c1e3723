"""The loss of a model that is taught: against torch's own divergence, autograd, known answers and what is left out."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

import leanrnn
from leanrnn.errors import ConfigError, DataError

DOUBLE = {"dtype": torch.float64}


def scores(*shape):
    return torch.randn(*shape, **DOUBLE, requires_grad=True)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_divergence_is_torchs(temperature):
    mine, theirs = scores(7, 2, 11), scores(7, 2, 11).detach()
    flat = [log_softmax(each.flatten(0, 1) / temperature, -1) for each in (mine, theirs)]
    wanted = kl_div(*flat, log_target=True, reduction="batchmean") * temperature**2
    torch.testing.assert_close(leanrnn.distil(mine, theirs, temperature=temperature), wanted)
    summed = leanrnn.distil(mine, theirs, temperature=temperature, reduction="sum")
    torch.testing.assert_close(summed, wanted * 14)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_gradient_is_the_difference_of_probabilities(temperature):
    mine, theirs = scores(5, 9), scores(5, 9).detach()
    leanrnn.distil(mine, theirs, temperature=temperature, reduction="sum").backward()
    torch.testing.assert_close(
        mine.grad, temperature * ((mine / temperature).softmax(-1) - (theirs / temperature).softmax(-1)).detach()
    )


def test_labels_and_teacher_are_mixed():
    mine, theirs, labels = scores(6, 4), scores(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    loss = cross_entropy(mine, labels)
    assert leanrnn.distil(mine, theirs, loss, weight=0.0).item() == loss.item()
    assert leanrnn.distil(mine, theirs, loss, weight=1.0).item() == leanrnn.distil(mine, theirs).item()
    mixed = leanrnn.distil(mine, theirs, loss, weight=0.25)
    torch.testing.assert_close(mixed, 0.75 * loss + 0.25 * leanrnn.distil(mine, theirs))
    mixed.backward()
    assert theirs.grad is None  # the teacher does not learn


def test_a_student_that_says_the_same_has_nothing_to_learn():
    mine = scores(3, 5)
    for kind in ("scores", "embedding", "regression"):
        torch.testing.assert_close(leanrnn.distil(mine, mine.detach(), kind=kind).item(), 0.0, atol=1e-12, rtol=0)


def test_known_answers():
    one, two = torch.tensor([[1.0, 0.0]], **DOUBLE), torch.tensor([[1.0, 1.0]], **DOUBLE)
    assert leanrnn.distil(one, two, kind="embedding").item() == pytest.approx(1 - math.sqrt(0.5))
    assert leanrnn.distil(one, two, kind="regression").item() == 0.5


def test_masked_positions_count_for_nothing():
    mine, theirs = scores(4, 3, 5), scores(4, 3, 5).detach()
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)
    theirs[~mask] = math.nan
    whole = leanrnn.distil(mine, theirs, mask=mask)
    torch.testing.assert_close(whole, leanrnn.distil(mine[mask], theirs[mask]))
    whole.backward()
    assert torch.isfinite(mine.grad).all() and not mine.grad[~mask].any()


def test_classes_that_both_rule_out():
    mine, theirs = scores(2, 6), scores(2, 6).detach()
    hidden = torch.tensor([False, False, False, True, True, False])
    both = [each.masked_fill(hidden, -math.inf) for each in (mine, theirs)]
    found = leanrnn.distil(*both)
    torch.testing.assert_close(found, leanrnn.distil(mine[:, ~hidden], theirs[:, ~hidden]))
    found.backward()
    assert torch.isfinite(mine.grad).all()


def test_several_outputs_add_up():
    first, second = (scores(3, 4), scores(3, 4).detach()), (scores(3, 7), scores(3, 7).detach())
    both = leanrnn.distil((first[0], second[0]), (first[1], second[1]))
    torch.testing.assert_close(both, leanrnn.distil(*first) + leanrnn.distil(*second))


@given(top=st.integers(1, 8), temperature=st.sampled_from([1.0, 2.5]))
def test_some_of_the_classes_are_a_coarser_question(top, temperature):
    """The divergence over lumped classes is that of the lumped distributions, and never above the whole one."""
    mine, theirs = scores(5, 8), scores(5, 8).detach()
    soft = leanrnn.SoftTargets.of(theirs, top, temperature)
    found = leanrnn.distil(mine, soft, temperature=temperature)
    whole = leanrnn.distil(mine, theirs, temperature=temperature)
    assert found <= whole + 1e-12
    p, q = ((each / temperature).softmax(-1).gather(-1, soft.classes) for each in (theirs, mine))
    p, q = (torch.cat([each, 1 - each.sum(-1, keepdim=True)], -1) if top < 8 else each for each in (p, q))
    torch.testing.assert_close(found, (p * (p / q).log()).sum(-1).mean() * temperature**2)
    if top == 8:
        torch.testing.assert_close(found, whole)


def test_a_teacher_is_a_frozen_copy_without_dropout():
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    teacher, x = leanrnn.Teacher(model), torch.randn(4, 3)
    said = teacher(x)
    assert model.training and model[0].weight.requires_grad and not said.requires_grad
    with torch.no_grad():
        model[0].weight.zero_()
    assert torch.equal(said, teacher(x))
    assert leanrnn.Teacher(lambda x: 2 * x)(x).equal(2 * x)


def test_a_teacher_of_one_s_own_is_used_as_it_is():
    model = nn.Linear(3, 2)
    assert leanrnn.Teacher(model, copy=False).model is model and not model.weight.requires_grad


def test_taught_model_learns_what_labels_do_not_say():
    """Labels are noise here: only from the teacher can the small model know."""
    torch.manual_seed(1)
    large, small = nn.LSTM(4, 16), nn.LSTM(4, 3)
    head, own = nn.Linear(16, 5), nn.Linear(3, 5)
    teacher = leanrnn.Teacher(nn.Sequential(large, _First(), head))
    student = nn.Sequential(small, _First(), own)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-2)
    x = torch.randn(6, 32, 4)
    course = []
    for _ in range(60):
        loss = leanrnn.distil(student(x), teacher(x), temperature=2.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        course.append(loss.item())
    assert course[-1] < 0.1 * course[0]


class _First(nn.Module):
    def forward(self, outputs):
        return outputs[0]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"weight": 1.5}, ConfigError, "from 0 to 1"),
        ({"temperature": 0.0}, ConfigError, "positive"),
        ({"kind": "cosine"}, ConfigError, "Choose scores, embedding, regression"),
        ({"reduction": "none"}, ConfigError, "mean or sum"),
        ({"taught": torch.zeros(3, 5)}, DataError, r"shape \(3, 4\) and the teacher's \(3, 5\)"),
        ({"taught": [torch.zeros(3, 4)] * 2}, DataError, "1 outputs and 2"),
        ({"mask": torch.ones(4)}, DataError, "mask has shape"),
        ({"taught": leanrnn.SoftTargets.of(torch.zeros(3, 4), 2), "temperature": 2.0}, DataError, "at temperature 1.0"),
    ],
)
def test_what_cannot_be(arguments, error, said):
    given = {"taught": torch.zeros(3, 4)} | arguments
    with pytest.raises(error, match=said):
        leanrnn.distil(torch.zeros(3, 4), **given)


def test_words_that_are_alike_are_half_right():
    vectors = torch.tensor([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]], **DOUBLE)
    soft = leanrnn.similar_words(vectors, torch.tensor([[0, 2]]))
    assert soft.shape == (1, 2, 3) and soft.argsort(-1, descending=True).tolist() == [[[0, 1, 2], [2, 1, 0]]]
