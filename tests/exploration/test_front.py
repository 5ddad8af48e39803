"""Which figures no other beats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.exploration.front import compared, dominated, undominated

FIGURES = st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=40)


@given(FIGURES)
def test_the_front_is_what_every_pair_says(points: list[tuple[int, int, int]]) -> None:
    def beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    expected = [not any(beats(one, each) for one in points) for each in points]
    assert undominated(points).tolist() == expected
    assert (~dominated(points, points)).tolist() == expected


def test_the_last_digits_are_not_compared() -> None:
    assert compared([0.1 + 0.2, 1e-18]) == (0.3, 1e-18)
    assert compared([1.00000000001]) != (1.0,)


def test_no_points_have_no_front() -> None:
    assert undominated([]).tolist() == []
    assert not dominated([(1, 1)], []).any()
    assert not len(dominated([], [(1, 1)]))
