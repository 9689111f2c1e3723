"""What components cost with the others standing in for them: against least squares, tried one by one."""

import numpy as np
import pytest
import torch

from leanrnn.refitting.stand_in import Reader, damped, errors, stand_in


def problem(size: int, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers that are read, with a one behind them, a weight, and how much each of its rows is felt."""
    torch.manual_seed(seed)
    x = torch.randn(200, size, dtype=torch.float64) @ torch.randn(size, size, dtype=torch.float64) + 1
    return (
        torch.cat((x, torch.ones(200, 1, dtype=torch.float64)), 1),
        torch.randn(rows, size).double(),
        torch.rand(rows),
    )


def reader(x: torch.Tensor, weight: torch.Tensor, felt: torch.Tensor, positions: list[int]) -> Reader:
    gram = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64)
    gram[:-1, :-1] = (weight * felt[:, None]).T @ weight
    components = torch.arange(len(positions))
    return Reader(gram, torch.linalg.inv(x.T @ x / len(x)), torch.tensor(positions), components)


def error(x: torch.Tensor, weight: torch.Tensor, felt: torch.Tensor, gone: list[int]) -> float:
    """The mean square of what the best weight without these columns gets wrong."""
    stays = [i for i in range(x.shape[1]) if i not in gone]
    wanted = x[:, :-1] @ weight.T
    best = torch.linalg.lstsq(x[:, stays], wanted).solution
    return float(((wanted - x[:, stays] @ best).square() * felt).sum(1).mean())


def test_the_cheapest_goes_first_and_costs_what_least_squares_leaves():
    data = [(*problem(5, 7, seed), list(range(4))) for seed in (1, 2)]  # the fifth input belongs to no component
    gone: list[int] = []
    expected = np.zeros(4)
    total = 0.0
    for _ in range(4):
        tried = {k: sum(error(x, w, f, [*gone, k]) for x, w, f, _ in data) for k in range(4) if k not in gone}
        best = min(tried, key=lambda k: tried[k])
        expected[best] = max([tried[best] - total, *expected])
        total = tried[best]
        gone.append(best)
    found = errors(4, [reader(*each) for each in data])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7)


def test_a_component_at_several_places_leaves_all_of_them():
    x, weight, felt = problem(4, 3, 0)
    both = Reader(**vars(reader(x, weight, felt, [0, 1, 2, 3])) | {"components": torch.tensor([0, 1, 0, 1])})
    both.leave_(0)
    np.testing.assert_allclose(both.gram[[0, 2]].numpy(), 0)
    left = torch.tensor([1, 3, 4])
    inverse = torch.linalg.inv((x.T @ x / len(x))[left][:, left])
    torch.testing.assert_close(both.inverse[left][:, left], inverse)


def test_what_leaves_is_told_by_least_squares():
    x, _, _ = problem(6, 1, 3)
    stays, gone = np.array([0, 2, 3, 6]), np.array([1, 4, 5])
    found = stand_in(x.T @ x / len(x), stays, gone)
    torch.testing.assert_close(found, torch.linalg.lstsq(x[:, stays], x[:, gone]).solution, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("moments", [torch.diag(torch.tensor([0.0, 0, 1])), torch.ones(3, 3)], ids=["zeros", "alike"])
def test_numbers_that_tell_nothing_apart_can_be_inverted(moments):
    assert torch.linalg.inv(damped(moments.double())).isfinite().all()
