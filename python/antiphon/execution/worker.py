"""A rank that was started: ``python -m antiphon.execution.worker FOLDER``, under ``mpiexec``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from antiphon._core import Executor, Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.chain.rank import chained_rank
from antiphon.execution.job import Part, silent
from antiphon.execution.measure import Plan, measure_rank
from antiphon.execution.mpi import MpiCarrier, last_words


def main(folder: str) -> None:
    """Takes part in the job of a folder."""
    part = Part(folder)
    carrier = MpiCarrier(part.task.pop("timeout_s"))
    at_work: list[Executor] = []

    def what() -> dict[str, object]:
        # Without a message to wait for, it is at a barrier or between runs.
        return {"waits_for": (at_work[-1].waits_for() or "the others") if at_work else None}

    part.beat(carrier.rank, what, gone=lambda: os._exit(1))
    try:
        schedules = [Schedule.from_json(text) for text in part.texts]
        with last_words(lambda: part.say(carrier.rank, **what())):
            for found in _found(carrier, schedules, part.task, at_work.append):
                if carrier.rank == 0:
                    part.add(found)
    except AntiphonError as error:
        # Now: a rank that hangs goes on for a moment when it is told to end.
        found = {"code": error.code, "error": error.message, "silent": silent(part.folder)}
        part.add({"rank": carrier.rank, **found, **what()})
        carrier.abort()


def _found(
    carrier: MpiCarrier, schedules: Sequence[Schedule], task: dict[str, Any], started: Callable[[Executor], object]
) -> Iterator[dict[str, Any]]:
    """What was measured of each schedule."""
    if "chain" in task:
        return chained_rank(carrier, schedules, task["chain"], started)
    return map(asdict, measure_rank(carrier, schedules, Plan(**task), started))


if __name__ == "__main__":
    main(sys.argv[1])
