"""Strength over time."""

import pytest

from leanrnn.errors import GroupsError
from leanrnn.sparsify.strength import as_schedule, constant, linear_ramp, off_from


def test_schedules():
    ramp = linear_ramp(4.0, 8)
    assert [ramp(step) for step in (0, 2, 8, 100)] == [0.0, 1.0, 4.0, 4.0]
    assert constant(2.0)(7) == as_schedule(2.0)(7) == 2.0
    ending = off_from(ramp, 4)
    assert [ending(step) for step in (2, 3, 4, 9)] == [1.0, 1.5, 0.0, 0.0]
    assert [off_from(ramp, 4, left=0.5)(step) for step in (3, 4, 8)] == [1.5, 1.0, 2.0]
    assert off_from(3.0, 1)(0) == 3.0 and as_schedule(ramp) is ramp


@pytest.mark.parametrize(
    "make",
    [
        lambda: constant(-1.0),
        lambda: linear_ramp(1.0, 0),
        lambda: off_from(float("nan"), 2),
        lambda: off_from(1.0, 2, left=-1.0),
    ],
)
def test_impossible_schedules_are_refused(make):
    with pytest.raises(GroupsError):
        make()
