"""What one rank does in a run: make data, run, compare with the definition, time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from antiphon._core import Executor, Schedule
from antiphon.execution.numbers import Data

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
    """Runs schedules one after the other, each ``started`` with what is at work on it."""
    for number, schedule in enumerate(schedules):
        executor = Executor(schedule, carrier.rank, plan.element)
        started(executor)
        out_of_place, in_place = (_timing(carrier, schedule, executor, plan, in_place) for in_place in (False, True))
        yield Measured(number, out_of_place, in_place)


def _timing(carrier: Carrier, schedule: Schedule, executor: Executor, plan: Plan, in_place: bool) -> Timing:
    data = Data(schedule, executor, carrier.rank, in_place)

    def run() -> None:
        data.load()
        carrier.run(executor, data.memory)

    def together() -> None:
        carrier.sum(0)

    time_ns, errors = timed(plan, data.reset, run, data.wrong, together)
    return Timing(carrier.max(time_ns), carrier.sum(errors))


def timed(
    plan: Plan,
    reset: Callable[[], object],
    run: Callable[[], object],
    wrong: Callable[[], int],
    together: Callable[[], object] = lambda: None,
) -> tuple[float, int]:
    """The mean time of a run in ns, and the most elements that were wrong after one. Every run starts when all are
    ready, from data that are made and compared while no clock runs."""
    spent_ns = errors = 0
    for number in range(-1 - plan.warmup, plan.iterations):
        reset()
        together()
        before = time.perf_counter_ns()
        run()
        spent_ns += (time.perf_counter_ns() - before) * (number >= 0)
        errors = max(errors, wrong())
    return spent_ns / plan.iterations, errors
