"""Runs measured in this process: a buffer a rank, threads that copy from one into another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon._core import Execution, Executor, Schedule
from antiphon.execution.measure import Measured, Plan, Timing, timed
from antiphon.execution.numbers import Data
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
    ranks = range(schedule.ranks)
    data = [Data(schedule, Executor(schedule, rank, plan.element), rank, in_place) for rank in ranks]
    kind = np.uint16 if plan.element == "bfloat16" else np.dtype(plan.element)
    arrays = [each.memory.view(kind) for each in data]

    def reset() -> None:
        for each in data:
            each.reset()

    def run() -> None:
        for each in data:
            each.load()
        execution.run(arrays, threads)

    return Timing(*timed(plan, reset, run, lambda: sum(each.wrong() for each in data)))
