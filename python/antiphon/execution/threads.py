"""Runs measured in this process: a buffer a rank, threads that copy from one into another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from antiphon._core import Execution, Executor, Schedule
from antiphon.execution.measure import Measured, Plan, Timing
from antiphon.execution.numbers import filled, wrong
from antiphon.parallel import cores


def measure_threads(
    schedules: Sequence[Schedule], plan: Plan, progress: Callable[[float], object] | None = None
) -> list[Measured]:
    """Runs schedules one after the other by as many threads as there are cores."""
    measured = []
    for number, schedule in enumerate(schedules):
        timings = []
        for in_place in (False, True):
            if progress is not None:
                progress((number + in_place / 2) / len(schedules))
            timings.append(_timing(schedule, plan, in_place))
        measured.append(Measured(number, *timings))
    return measured


def _timing(schedule: Schedule, plan: Plan, in_place: bool) -> Timing:
    import numpy as np

    execution, threads = Execution(schedule), min(cores(), 1024)
    ranks = [Executor(schedule, rank, plan.element) for rank in range(schedule.ranks)]
    memories = [filled(plan.element, schedule.ranks, each, 0, rank.memory_bytes) for each, rank in enumerate(ranks)]
    own = [memory[slice(*rank.input)].copy() for memory, rank in zip(memories, ranks, strict=True)]
    for number, memory in enumerate(memories):
        if number in schedule.excluded:
            memory[:] = 0
        elif not in_place:
            memory[:] = 255
    kind = np.uint16 if plan.element == "bfloat16" else np.dtype(plan.element)
    arrays = [memory.view(kind) for memory in memories]

    def once() -> None:
        if not in_place:
            for memory, rank, data in zip(memories, ranks, own, strict=True):
                np.copyto(memory[slice(*rank.input)], data)
        execution.run(arrays, threads)

    once()
    errors = sum(
        wrong(rank, plan.element, schedule.ranks, schedule.excluded, memory)
        for memory, rank in zip(memories, ranks, strict=True)
    )
    for _ in range(plan.warmup):
        once()
    before = time.perf_counter_ns()
    for _ in range(plan.iterations):
        once()
    return Timing((time.perf_counter_ns() - before) / plan.iterations, errors)
