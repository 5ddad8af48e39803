"""Numbers to run collectives on, and the comparison with the definition."""

from __future__ import annotations

import numpy as np
import pytest
from definition import defined

import antiphon
from antiphon._core import Executor
from antiphon.execution.measure import Plan, measure_rank
from antiphon.execution.numbers import ELEMENTS, LARGEST_EXACT, filled, wrong


def as_float64(element: str, data: np.ndarray) -> np.ndarray:
    if element == "bfloat16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return data.view(element).astype(np.float64)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("ranks", [2, 9, 256])
def test_sums_are_exact_and_ranks_differ(element: str, ranks: int) -> None:
    size = ELEMENTS[element]
    numbers = np.array([as_float64(element, filled(element, ranks, rank, 0, 600 * size)) for rank in range(ranks)])
    assert (numbers == numbers.round()).all()
    assert (numbers >= 0).all()
    assert numbers.sum(axis=0).max() <= LARGEST_EXACT.get(element, 1 << 24)
    # Neither two ranks nor two neighbouring places have the same.
    assert (numbers[0] != numbers[1]).any()
    assert (numbers[:, 1:] != numbers[:, :-1]).mean() > 0.4


@pytest.mark.parametrize("block", [1 << 20, 64])
@pytest.mark.parametrize("element", ELEMENTS)
def test_a_part_is_the_same_as_in_the_whole(element: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    size = ELEMENTS[element]
    whole = filled(element, 4, 2, 0, 1000 * size)
    monkeypatch.setattr("antiphon.execution.numbers.BLOCK_BYTES", block)
    assert whole.dtype == np.uint8
    assert whole.size == 1000 * size
    np.testing.assert_array_equal(filled(element, 4, 2, 300 * size, 700 * size), whole[300 * size : 700 * size])
    assert filled(element, 4, 2, size, size).size == 0


class Alone:
    """Carries nothing, but does to a rank's memory what it is told."""

    def __init__(self, rank: int, ranks: int, memory: np.ndarray | None, broken: int | None) -> None:
        self.rank, self.ranks, self.memory, self.broken = rank, ranks, memory, broken

    def run(self, executor: Executor, memory: np.ndarray) -> None:
        if self.memory is not None:
            memory[:] = self.memory
        if self.broken is not None:
            memory[self.broken] ^= 1

    def max(self, value: float) -> float:
        return value

    def sum(self, value: int) -> int:
        return value


@pytest.mark.parametrize("collective", antiphon.collectives())
@pytest.mark.parametrize("element", ["int32", "float16"])
def test_every_wrong_element_is_counted(collective: str, element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.execution.numbers.BLOCK_BYTES", 128)
    size = ELEMENTS[element]
    schedule = antiphon.build("mesh:3x3", "direct", collective, 180 * size, root=4)
    plan = Plan(element, 0, 1)
    parts = 9 if collective == "all-to-all" else 1
    before = [filled(element, 9, rank, 0, 180 * size * parts).view(element) for rank in range(9)]
    total = 0
    for rank in range(9):
        right = before[rank].copy()
        for place, expected in defined(schedule, before, rank):
            right[place] = expected
        right = right.view(np.uint8)
        executor = Executor(schedule, rank, element)
        assert wrong(executor, element, 9, (), right) == 0
        outputs = [(start, stop) for start, stop, _ in executor.outputs]
        total += sum(stop - start for start, stop in outputs)
        for at in {at for start, stop in outputs if start < stop for at in (start, stop - 1)}:
            (found,) = measure_rank(Alone(rank, 9, right, at), [schedule], plan, lambda _: None)
            assert (found.out_of_place.wrong, found.in_place.wrong) == (1, 1)
        if collective in ("all-reduce", "reduce-scatter"):
            # Nothing was carried.
            (found,) = measure_rank(Alone(rank, 9, None, None), [schedule], plan, lambda _: None)
            assert min(found.out_of_place.wrong, found.in_place.wrong) > 0
    whole = 180 * size
    assert total == {"reduce": whole, "reduce-scatter": whole}.get(collective, 9 * whole)
