"""What one rank does in a run: make data, run, compare with the definition, time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from antiphon._core import Executor, Schedule
from antiphon.execution.numbers import filled, wrong

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Plan:
    """How to measure: the type of numbers, runs before the timed ones, timed runs."""

    element: str
    warmup: int
    iterations: int


@dataclass(frozen=True)
class Timing:
    """Time of one run in ns, the slowest rank's mean, and elements that were wrong on all ranks together."""

    time_ns: float
    wrong: int


@dataclass(frozen=True)
class Measured:
    """One schedule's timings; in place, data start in the buffer where results come, else in one of their own."""

    schedule: int
    out_of_place: Timing
    in_place: Timing


class Carrier(Protocol):
    """What carries the messages of a rank."""

    rank: int
    ranks: int

    def run(self, executor: Executor, memory: Array) -> None: ...
    def max(self, value: float) -> float: ...
    def sum(self, value: int) -> int: ...


def measure_rank(
    carrier: Carrier, schedules: Sequence[Schedule], plan: Plan, started: Callable[[Executor], object]
) -> Iterator[Measured]:
    """Runs schedules one after the other, each ``started`` with what is at work on it. Timed runs follow without a
    pause; data are made and compared before."""
    for number, schedule in enumerate(schedules):
        executor = Executor(schedule, carrier.rank, plan.element)
        started(executor)
        out_of_place, in_place = (_timing(carrier, schedule, executor, plan, in_place) for in_place in (False, True))
        yield Measured(number, out_of_place, in_place)


def _timing(carrier: Carrier, schedule: Schedule, executor: Executor, plan: Plan, in_place: bool) -> Timing:
    import numpy as np

    start, stop = executor.input
    memory = filled(plan.element, carrier.ranks, carrier.rank, 0, executor.memory_bytes)
    own = memory[start:stop].copy()
    if not in_place:
        memory[:] = 255  # what is there must not matter
    if carrier.rank in schedule.excluded:
        memory[:] = 0  # it may add what is its own

    def once() -> None:
        if not in_place:
            np.copyto(memory[start:stop], own)
        carrier.run(executor, memory)

    once()
    errors = carrier.sum(wrong(executor, plan.element, carrier.ranks, schedule.excluded, memory))
    for _ in range(plan.warmup):
        once()
    carrier.sum(0)  # all start together
    before = time.perf_counter_ns()
    for _ in range(plan.iterations):
        once()
    return Timing(carrier.max((time.perf_counter_ns() - before) / plan.iterations), errors)
