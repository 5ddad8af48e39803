"""What a rank's memory holds before and after a run, which is checked every time."""

from __future__ import annotations

import numpy as np
import pytest
from definition import defined

import antiphon
from antiphon._core import Execution, Executor
from antiphon.execution.measure import Plan, measure_rank
from antiphon.execution.numbers import ELEMENTS
from antiphon.execution.threads import measure_threads


class Alone:
    """Carries nothing, but does to a rank's memory what it is told: run by run, the last one again and again."""

    def __init__(self, rank: int, ranks: int, *after: np.ndarray | None) -> None:
        self.rank, self.ranks, self.after, self.runs = rank, ranks, after, 0

    def run(self, executor: Executor, memory: np.ndarray) -> None:
        after = self.after[self.runs % len(self.after)]
        self.runs += 1
        if after is not None:
            memory[:] = after

    def max(self, value: float) -> float:
        return value

    def sum(self, value: int) -> int:
        return value


def right_memories(schedule: antiphon.Schedule, element: str) -> list[np.ndarray]:
    """What all ranks end with by the definition, from what each has."""
    ranks = [Executor(schedule, rank, element) for rank in range(schedule.ranks)]
    kind = "uint16" if element == "bfloat16" else element
    before = []
    for rank in ranks:
        memory = np.zeros(rank.memory_bytes, np.uint8)
        memory[slice(*rank.input)] = rank.own()
        before.append(memory.view(kind if "reduce" in schedule.collective else f"u{ELEMENTS[element]}"))
    after = [memory.copy() for memory in before]
    for number, memory in enumerate(after):
        for place, expected in defined(schedule, before, number):
            memory[place] = expected
    return [memory.view(np.uint8) for memory in after]


@pytest.mark.parametrize("collective", antiphon.collectives())
@pytest.mark.parametrize("element", ["int32", "float16"])
def test_every_wrong_element_is_counted(collective: str, element: str) -> None:
    size = ELEMENTS[element]
    schedule = antiphon.build("mesh:3x3", "direct", collective, 180 * size, root=4)
    plan, total = Plan(element, 0, 1), 0
    for rank, right in enumerate(right_memories(schedule, element)):
        (found,) = measure_rank(Alone(rank, 9, right), [schedule], plan, lambda _: None)
        assert (found.out_of_place.wrong, found.in_place.wrong) == (0, 0)
        (found,) = measure_rank(Alone(rank, 9, ~right), [schedule], plan, lambda _: None)
        total += found.in_place.wrong
        assert found.out_of_place.wrong == found.in_place.wrong
        for at, _ in defined(schedule, [right.view(f"u{size}")] * 9, rank):
            broken = right.copy()
            broken[at.start * size] ^= 1
            (found,) = measure_rank(Alone(rank, 9, broken), [schedule], plan, lambda _: None)
            assert (found.out_of_place.wrong, found.in_place.wrong) == (1, 1)
    assert total == {"reduce": 180, "reduce-scatter": 180}.get(collective, 9 * 180)


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "broadcast", "all-to-all"])
@pytest.mark.parametrize("bad", range(4))
def test_every_run_is_checked(collective: str, bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is carried in one of several runs, where results of the last one could be taken for its own."""
    schedule = antiphon.build("mesh:2x2", "direct", collective, 4096)
    runs = [None if run == bad else right_memories(schedule, "float32")[3] for run in range(4)]
    (found,) = measure_rank(Alone(3, 4, *runs), [schedule], Plan("float32", 1, 2), lambda _: None)
    assert min(found.out_of_place.wrong, found.in_place.wrong) > 0

    class Lazy:
        def __init__(self, schedule: antiphon.Schedule) -> None:
            self.real, self.runs = Execution(schedule), 0

        def run(self, arrays: list[np.ndarray], threads: int) -> None:
            if self.runs != bad:
                self.real.run(arrays, threads)
            self.runs += 1

    monkeypatch.setattr("antiphon.execution.threads.Execution", Lazy)
    (found,) = measure_threads([schedule], Plan("float32", 1, 2))
    assert min(found.out_of_place.wrong, found.in_place.wrong) > 0


@pytest.mark.parametrize("element", ELEMENTS)
def test_an_exchange_of_two_ranks_data_is_seen(element: str) -> None:
    """However few the bits and many the ranks: 19 of them have the same remainder by 13, 256 // 19."""
    schedule = antiphon.build("switch:19", "direct", "all-gather", 19 * 8)
    right = right_memories(schedule, element)[0]
    for one in range(19):
        for other in range(one):
            exchanged = right.copy().reshape(19, 8)
            exchanged[[one, other]] = exchanged[[other, one]]
            assert Executor(schedule, 0, element).wrong(exchanged.ravel()) > 0
