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
def test_every_wrong_element_is_counted(collective: str) -> None:
    schedule = antiphon.build("mesh:3x3", "direct", collective, 180 * 2, root=4)
    plan, total = Plan("float16", 0, 1), 0
    for rank, right in enumerate(right_memories(schedule, "float16")):
        broken = [right, ~right]
        for at, _ in defined(schedule, [right.view("u2")] * 9, rank):
            broken.append(right.copy())
            broken[-1][at.start * 2] ^= 1
        found = [measure_rank(Alone(rank, 9, each), [schedule], plan, lambda _: None) for each in broken]
        wrong = [(each.out_of_place.wrong, each.in_place.wrong) for (each,) in found]
        assert wrong == [(0, 0), (wrong[1][0], wrong[1][0]), *[(1, 1)] * (len(broken) - 2)]
        total += wrong[1][0]
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
