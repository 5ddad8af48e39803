"""Rates of works that run at the same time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from antiphon import AntiphonError
from antiphon.calibration.sampling import Done, rates, together
from antiphon.parallel import threads


def test_rates_are_those_of_the_time_that_all_share() -> None:
    # All run from 2 to 6: the first does 2 a second, the second a piece of 8 of which half lies in between and then 4.
    first, second = Done([0, 2, 6], [0, 3, 11]), Done([2, 4, 6, 8], [0, 8, 12, 100])
    assert rates([[first]]) == [pytest.approx(11 / 6)]
    assert rates([[first], [second]]) == [pytest.approx(2), pytest.approx(3)]
    assert rates([[first, second]]) == [pytest.approx(5)]


def test_what_did_not_overlap_has_no_rate() -> None:
    with pytest.raises(AntiphonError, match="too short"):
        rates([[Done([0, 1], [0, 1])], [Done([1, 2], [0, 1])]])


class Counted:
    """A lane whose pieces end one second after the other."""

    def __init__(self, failing: bool = False) -> None:
        self.pieces = 0
        self.failing = failing

    def begin(self) -> None:
        self.pieces = 0

    def piece(self) -> float:
        if self.failing:
            raise ValueError("fails")
        time.sleep(1e-4)
        self.pieces += 1
        return 3.0

    def ends(self, _noted: Sequence[float]) -> Sequence[float]:
        return range(self.pieces + 1)


def test_lanes_run_together_and_again() -> None:
    lanes = [Counted(), Counted(), Counted()]
    with threads(3) as (pool, _count):
        for _ in range(2):
            assert together(pool, [lanes[:1], lanes[1:]], 1e-3) == [3, 6]
    assert all(lane.pieces for lane in lanes)


def test_one_that_fails_ends_the_others() -> None:
    with threads(2) as (pool, _count), pytest.raises(ValueError, match="fails"):
        together(pool, [[Counted()], [Counted(failing=True)]], 3600)
